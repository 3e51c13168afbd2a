/**
 * Which image a database runs, to the byte. A tag can be moved; the digest that the pod's node resolved it to cannot, so
 * from then on the template names that: whatever makes the pod anew, it is the same program. Pure.
 */

const digestForm = /^(.+)@(sha256:[0-9a-f]{64})$/
/** How some runtimes begin an id that names a repository too. */
const pullable = /^docker-pullable:\/\//

/** The repository that a reference names, as Docker reads it; without tag and digest. */
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
 * The reference by digest of what a container runs. `imageId` is what its status says: a repository with a digest, where
 * the image was pulled. Where it was loaded into the node by hand (an id without a repository, or one made up for the
 * occasion), or runs without an image, nothing could be pulled by that, and it is undefined.
 */
export function pinnedReference(reference: string, imageId: string): string | undefined {
  if (reference.includes('@')) return undefined
  const [, name, digest] = digestForm.exec(imageId.replace(pullable, '')) ?? []
  if (name === undefined || digest === undefined) return undefined
  return repositoryOf(name) === repositoryOf(reference) ? `${withoutTag(reference)}@${digest}` : undefined
}

/** Whether an image is the one that a reference names, by digest. */
export function isPinOf(reference: string, image: string): boolean {
  const [, name] = digestForm.exec(image) ?? []
  return name !== undefined && !reference.includes('@') && name === withoutTag(reference)
}
