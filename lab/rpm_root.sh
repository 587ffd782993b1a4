#!/bin/sh
# Makes a root of RPM packages of a Debian one that has rpm, dnf and createrepo_c: run inside it.
# Its packages are small ones of our own in the layout of a real distribution; dpkg, apt and their records are gone.
set -eu
cd /root
package() { # NAME VERSION: the files are below /root/files/NAME
    cat > "$1.spec" << END
Name: $1
Version: $2
Release: 1.el9
Summary: $1 of the lab
License: Apache-2.0
BuildArch: noarch
AutoReqProv: no
%description
$1 of the lab
%install
cp -a /root/files/$1/. %{buildroot}/
%files
$(cd "files/$1" && find . -type f | cut -c 2-)
END
    rpmbuild --quiet -bb --define "_rpmdir /srv/repository" "$1.spec"
}
unit() { # PACKAGE UNIT PROGRAM
    mkdir -p "files/$1/usr/lib/systemd/system" "files/$1/usr/bin"
    printf '[Unit]\nDescription=%s\n[Service]\nExecStart=%s\n[Install]\nWantedBy=multi-user.target\n' "$2" "$3" \
        > "files/$1/usr/lib/systemd/system/$2"
}
mkdir -p files/lab-release/usr/lib /srv/repository
cat > files/lab-release/usr/lib/os-release << END
NAME="Lab Linux"
ID=lab
ID_LIKE="rhel fedora"
VERSION_ID=9.4
PRETTY_NAME="Lab Linux 9.4"
END
unit containerd containerd.service /usr/bin/containerd
unit kubelet kubelet.service /usr/bin/kubelet
for version in 1.35.9 1.36.2 1.36.3; do
    printf '#!/bin/sh\necho "Kubernetes v%s"\n' "$version" > files/kubelet/usr/bin/kubelet
    chmod 755 files/kubelet/usr/bin/kubelet
    package kubelet "$version"
done
package containerd 2.2.9
package lab-release 9.4
createrepo_c --quiet /srv/repository
mkdir -p /etc/yum.repos.d /etc/dnf/vars
echo 9 > /etc/dnf/vars/releasever
rm -f /etc/dnf/plugins/local.conf # Debian turns on a plugin that no other distribution does
printf '[lab]\nname=lab\nbaseurl=file:///srv/repository\nenabled=1\ngpgcheck=0\n' > /etc/yum.repos.d/lab.repo
rm -f /etc/os-release /usr/lib/os-release
ln -s ../usr/lib/os-release /etc/os-release
dnf -q -y install lab-release
mkdir -p /etc/selinux/targeted/contexts/files
printf 'SELINUX=enforcing\nSELINUXTYPE=targeted\n' > /etc/selinux/config
: > /etc/selinux/targeted/contexts/files/file_contexts
rm -rf /root/* /root/.rpmmacros /var/lib/dpkg /var/lib/apt /etc/apt /usr/bin/apt* /usr/bin/dpkg* /var/cache/dnf /tmp/*
