# packer build -var image=debian-12-genericcloud-amd64.qcow2 -var checksum=... node.pkr.hcl
# A virtual machine of a cloud image is baked over SSH, from the machine that packer runs on. packer 1.7 and later want the
# qemu plugin: packer plugins install github.com/hashicorp/qemu
variable "image" {
  type = string
}

variable "checksum" {
  type    = string
  default = "none"
}

variable "key" {
  type        = string
  description = "The private key of the user below; cloud-init of the seed has its public part."
}

variable "user" {
  type    = string
  default = "debian"
}

source "qemu" "node" {
  iso_url              = var.image
  iso_checksum         = var.checksum
  disk_image           = true
  headless             = true
  accelerator          = "tcg"
  memory               = 4096
  format               = "qcow2"
  qemuargs             = [["-cdrom", "seed.iso"]]
  ssh_username         = var.user
  ssh_private_key_file = var.key
  ssh_timeout          = "20m"
  shutdown_command     = "sudo rm -f ~/.ssh/authorized_keys && sudo systemctl poweroff"
}

build {
  sources = ["source.qemu.node"]

  provisioner "shell-local" {
    inline = [
      "pyinfra -y --sudo --ssh-user ${var.user} --ssh-port ${build.Port} --ssh-key ${var.key} --data ssh_strict_host_key_checking=off ${build.Host} deploys/bake.py --data numaforge_image=image.yaml"
    ]
  }
}
