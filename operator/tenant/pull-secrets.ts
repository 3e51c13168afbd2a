/**
 * Copies the pull Secrets for the databases' images. A pod can use only Secrets in its own namespace, so each tenant's
 * namespace gets copies. If the tenant has its own Secret with the same name, the operator does not change it, and pods
 * use it.
 */
import type { Logger } from 'pino'
import type { Cluster, Draft, Namespace, Secret } from '../../cluster/index.ts'
import { canonicalJson, labels, managedByEspalier, type ObjectMeta, systemNamespace } from '../../crds/index.ts'

/** Annotation of a tenant's namespace: the names of the copies that may be in it. */
const copiesAnnotation = 'espalier.dev/pull-secrets'

const secretLabels = { [labels.managedBy]: managedByEspalier, [labels.component]: 'pull-secret' }

type Sources = { get(key: { namespace: string; name: string }): Secret | undefined }

/** The annotations for a namespace that should have copies. */
export const copiesNote = (names: readonly string[]): Pick<ObjectMeta, 'annotations'> =>
  names.length === 0 ? {} : { annotations: { [copiesAnnotation]: names.join(',') } }

const copyOf = (source: Secret, namespace: string): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: source.type ?? 'Opaque',
  metadata: { name: source.metadata.name, namespace, labels: secretLabels },
  data: source.data ?? {},
})

/**
 * Reconciles the copies in a tenant's namespace. Configured copies equal their sources; others are deleted.
 * `namespace`: its previous state. If it never had copies and needs none, this reads nothing.
 */
export async function keepCopies(
  { cluster, sources, names, logger }: { cluster: Cluster; sources: Sources; names: readonly string[]; logger: Logger },
  where: string,
  namespace: Namespace | undefined,
): Promise<void> {
  if (names.length === 0 && namespace?.metadata.annotations?.[copiesAnnotation] === undefined) return
  const { items } = await cluster.list('Secret', { namespace: where, labels: secretLabels })
  for (const { metadata } of items.filter(copy => !names.includes(copy.metadata.name)))
    await cluster.delete('Secret', { namespace: where, name: metadata.name }, { uid: metadata.uid })
  for (const name of names) {
    const source = sources.get({ namespace: systemNamespace, name })
    if (source === undefined) {
      logger.warn({ secret: name }, 'the Secret for pulling images does not exist')
      continue
    }
    const copy = items.find(({ metadata }) => metadata.name === name)
    if (copy !== undefined && canonicalJson(copy.data ?? {}) === canonicalJson(source.data ?? {})) continue
    if (copy === undefined && (await cluster.get('Secret', { namespace: where, name })) !== undefined) continue
    await cluster.apply('Secret', copyOf(source, where))
  }
}
