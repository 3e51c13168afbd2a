/**
 * Which image a database runs, by digest. A tag can be moved; the digest that the pod's node resolved cannot. From then
 * on the template names the digest, so that every new pod runs the same program. Pure.
 */

const digestForm = /^(.+)@(sha256:[0-9a-f]{64})$/
/** Prefix of some runtimes' image ids that name a repository too. */
const pullable = /^docker-pullable:\/\//

/** The repository in a reference, parsed as Docker does; without tag and digest. */
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
 * The reference by digest of the image that a container runs. `imageId` comes from its status: a repository with a
 * digest, if the image was pulled. It is undefined if the image was loaded into the node by hand (an id without a
 * repository, or an invented one) or the pod runs without an image: nothing could be pulled by that.
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
