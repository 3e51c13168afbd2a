/** The Secrets of databases, and the namespaces in which the operator has its rights. */
import { bindingLabels } from '../access/bindings.ts'
import { type Served, servedByBindings, servedEverywhere, servedWhereBound } from '../access/served.ts'
import { withoutConfiguration } from '../service/trim.ts'
import type { CacheSet } from './cache-set.ts'
import { labelled, ofSecrets } from './indexes.ts'

export type Rights = {
  /** Whether the operator has its rights only in namespaces with its binding (see `access/`). */
  byNamespace: boolean
  /** Whether it may still list and watch the Secrets of all namespaces. */
  watchesAllSecrets: boolean
}

const secretOptions = { ...labelled, transform: withoutConfiguration, indexes: ofSecrets } as const

export function followSecrets(set: CacheSet, { byNamespace, watchesAllSecrets }: Rights) {
  const follow = byNamespace ? set.follow.bind(set) : set.unstarted.bind(set)
  const bindings = follow('role-bindings', 'RoleBinding', { labels: bindingLabels })
  const everywhere = () => set.follow('secrets', 'Secret', secretOptions)
  const bound = (): Served =>
    watchesAllSecrets
      ? servedWhereBound(bindings, everywhere())
      : servedByBindings(bindings, set.followByNamespace('secrets', 'Secret', secretOptions))
  return { bindings, served: byNamespace ? bound() : servedEverywhere(everywhere()) }
}
