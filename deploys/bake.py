"""Bake an image of self-planning nodes: pyinfra @chroot//ROOT deploys/bake.py --data numaforge_image=FILE"""

from numaforge.image.bake import image

image()
