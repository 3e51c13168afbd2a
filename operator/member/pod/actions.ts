/** Actions on a member's running pod. */
export type PodAction =
  /** Restores labels, images and annotations of a pod without a restart of the pod. */
  {
    do: 'repair-pod'
    name: string
    namespace: string
    uid: string
    labels: Record<string, string>
    /** By container. */
    images: Record<string, string>
    annotations: Record<string, string>
  }
