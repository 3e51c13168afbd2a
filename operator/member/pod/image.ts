/**
 * Determines which image a database runs, by digest. A tag can be moved to another image; a digest cannot. After a node
 * has resolved the tag, the template names the digest, so every new pod runs the same image. Pure.
 */

const digestForm = /^(.+)@(sha256:[0-9a-f]{64})$/
/** Prefix of the image ids of some runtimes. */
const pullable = /^docker-pullable:\/\//

/** Returns the repository in a reference, without tag and digest. Parses the reference like Docker. */
function repositoryOf(reference: string): string {
  const named = reference.replace(/@.*$/, '')
  const slash = named.lastIndexOf('/')
  const tagless = named.includes(':', slash + 1) ? named.slice(0, named.lastIndexOf(':')) : named
  const [first = '', ...rest] = tagless.split('/')
  const hasHost = rest.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost')
  const [host, path] = hasHost ? [first, rest.join('/')] : ['docker.io', tagless]
  const registry = host === 'index.docker.io' ? 'docker.io' : host
  return registry === 'docker.io' && !path.includes('/') ? `docker.io/library/${path}` : `${registry}/${path}`
}

const withoutTag = (reference: string): string => {
  const slash = reference.lastIndexOf('/')
  return reference.includes(':', slash + 1) ? reference.slice(0, reference.lastIndexOf(':')) : reference
}

/**
 * Returns a reference by digest to the image that a container runs. `imageId`: the image id in the container's status.
 * If the node pulled the image, the id is a repository with a digest. Returns undefined if the reference already has a
 * digest, or if no node can pull the image by the id. For example, a user loaded the image into the node, or the
 * embedded cluster runs the pod without an image.
 */
export function pinnedReference(reference: string, imageId: string): string | undefined {
  if (reference.includes('@')) return undefined
  const [, name, digest] = digestForm.exec(imageId.replace(pullable, '')) ?? []
  if (name === undefined || digest === undefined) return undefined
  return repositoryOf(name) === repositoryOf(reference) ? `${withoutTag(reference)}@${digest}` : undefined
}

/** Whether `image` is the image of `reference`, by digest. */
export function isPinOf(reference: string, image: string): boolean {
  const [, name] = digestForm.exec(image) ?? []
  return name !== undefined && !reference.includes('@') && name === withoutTag(reference)
}
