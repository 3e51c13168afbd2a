/**
 * Runs before an upgrade changes the permissions of operator and API. Creates their RoleBindings in every namespace
 * that may contain databases, so that both versions always have permissions. Afterwards the operator creates them.
 */
import { type Cluster, KindNotServedError, type Namespace } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { bindingDrafts, databasesLabel, mayContainDatabases, notServedMessage } from '../access/bindings.ts'
import { createIfAbsent } from '../objects/create.ts'

const pageSize = 500

/** Namespaces that contain databases without permission. Each message says what to do. */
export async function namespacesNotAllowed(cluster: Cluster): Promise<string[]> {
  const allowed = new Set((await namespacesOfDatabases(cluster)).map(({ metadata }) => metadata.name))
  const used = await databaseNamespaces(cluster)
  return [...used].filter(name => !allowed.has(name)).map(notServedMessage)
}

/** @returns how many bindings were created */
export async function bindNamespaces(cluster: Cluster): Promise<number> {
  let created = 0
  for (const { metadata } of await namespacesOfDatabases(cluster)) {
    if (metadata.deletionTimestamp !== undefined) continue
    for (const draft of bindingDrafts(metadata.name)) if (await createIfAbsent(cluster, 'RoleBinding', draft)) created++
  }
  return created
}

async function namespacesOfDatabases(cluster: Cluster): Promise<Namespace[]> {
  const [ofTenants, others] = await Promise.all([
    cluster.list('Namespace', { labels: { [labels.tenant]: true } }),
    cluster.list('Namespace', { labels: { [databasesLabel]: 'true' } }),
  ])
  return [...ofTenants.items, ...others.items].filter(mayContainDatabases)
}

/** Empty if the cluster does not serve the kind yet, as before an installation. */
async function databaseNamespaces(cluster: Cluster): Promise<Set<string>> {
  const namespaces = new Set<string>()
  let continueToken: string | undefined
  try {
    do {
      const page = await cluster.list('ManagedDatabase', { limit: pageSize, continueToken })
      for (const { metadata } of page.items) namespaces.add(metadata.namespace ?? '')
      continueToken = page.continueToken
    } while (continueToken)
  } catch (error) {
    if (!(error instanceof KindNotServedError)) throw error
  }
  return namespaces
}
