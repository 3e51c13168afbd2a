/** Actions on a member's running pod. */
export type PodAction =
  /** Restores the pod's labels, images and annotations without restarting the pod. */
  {
    do: 'repair-pod'
    name: string
    namespace: string
    uid: string
    labels: Record<string, string>
    /** The image of each container, by the container's name. */
    images: Record<string, string>
    annotations: Record<string, string>
  }
