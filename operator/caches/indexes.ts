/** What the informers of children are selected and found by. */
import type { AnyObject } from '../../cluster/index.ts'
import { annotations, labels } from '../../crds/index.ts'
import { serviceKeysComponent } from '../../sealing/service-keys.ts'
import { ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'

export const one = <T>(value: T | undefined): T[] => (value === undefined ? [] : [value])

/** What carries the label of a database. */
export const labelled = { labels: { [labels.database]: true } } as const

export const byOwner = {
  owner: (object: Pick<AnyObject, 'metadata'>) => one(ownerUidOf(object)),
  database: (object: Pick<AnyObject, 'metadata'>) => one(object.metadata.labels?.[labels.database]),
}

export const ofSecrets = {
  ...byOwner,
  /** Those with keys that users gave to the API: the namespace. */
  serviceKeys: ({ metadata }: Pick<AnyObject, 'metadata'>) =>
    metadata.labels?.[labels.component] === serviceKeysComponent ? one(metadata.namespace) : [],
}

export const ofSnapshots = {
  ...byOwner,
  /** Of those that are for one branch alone: the key of the backup that they are of. */
  singleUse: (snapshot: Pick<AnyObject, 'metadata'>) =>
    snapshot.metadata.annotations?.[annotations.singleUse] === 'true' ? one(ownerKeyOf(snapshot)) : [],
}
