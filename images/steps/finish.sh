# The last step for the packages of an image. Adds the user for all processes, and removes everything that Espalier's
# processes do not need. Runs during the image build.
set -eu

echo 'espalier:x:10001:10001:Espalier:/nonexistent:/usr/sbin/nologin' >> /etc/passwd
echo 'espalier:x:10001:' >> /etc/group

# No process in the image may become another user.
find / -xdev -type f -perm /6000 -exec chmod u-s,g-s {} +

apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/cache/ldconfig/* /var/log/* /tmp/* /var/tmp/*
