# The image of kube-proxy, the only component of Kubernetes that needs other programs.
ARG BASE
FROM ${BASE}
RUN --mount=type=bind,source=steps,target=/steps \
    --mount=type=secret,id=apt --mount=type=secret,id=apt-sources \
    sh /steps/install.sh conntrack iptables kmod nftables \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY kube-proxy /usr/local/bin/kube-proxy
