/** Selectors and indexes of the informers of children. */
import type { AnyObject } from '../../cluster/index.ts'
import { annotations, labels } from '../../crds/index.ts'
import { serviceKeysComponent } from '../../sealing/service-keys.ts'
import { ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'

export const one = <T>(value: T | undefined): T[] => (value === undefined ? [] : [value])

/** Objects with the label of a database. */
export const labelled = { labels: { [labels.database]: true } } as const

export const byOwner = {
  owner: (object: Pick<AnyObject, 'metadata'>) => one(ownerUidOf(object)),
  database: (object: Pick<AnyObject, 'metadata'>) => one(object.metadata.labels?.[labels.database]),
}

export const ofSecrets = {
  ...byOwner,
  /** The namespace of a Secret with keys of services that users passed to the API. */
  serviceKeys: ({ metadata }: Pick<AnyObject, 'metadata'>) =>
    metadata.labels?.[labels.component] === serviceKeysComponent ? one(metadata.namespace) : [],
}

export const ofSnapshots = {
  ...byOwner,
  /** For a snapshot that serves only one branch: the key of its backup. */
  singleUse: (snapshot: Pick<AnyObject, 'metadata'>) =>
    snapshot.metadata.annotations?.[annotations.singleUse] === 'true' ? one(ownerKeyOf(snapshot)) : [],
}
