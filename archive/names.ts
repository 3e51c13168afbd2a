/** Names of objects: what a database archives is below `<id>/<incarnation>/`. */

/** One volume's worth of a database's history: its id (a UUID), and the number of the volume, from 1. */
export type Incarnation = { readonly databaseId: string; readonly number: number }

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const incarnationNumber = /^[1-9][0-9]{0,8}$/

export const isUuid = (text: string): boolean => uuid.test(text)

/** Undefined unless `id` is a UUID in lower case and `number` a number from 1. */
export const parseIncarnation = (id: string, number: string): Incarnation | undefined =>
  isUuid(id) && incarnationNumber.test(number) ? { databaseId: id, number: Number(number) } : undefined

/**
 * Files that Postgres archives (manual, "Continuous Archiving"): a segment, also a partial one after a promotion, a history file of a
 * timeline, and the label of a base backup.
 */
const walFile = /^([0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history)$/

export const isWalFile = (name: string): boolean => walFile.test(name)

export const walPrefix = ({ databaseId, number }: Incarnation): string => `${databaseId}/${number}/wal/`

/** An object that tells whether the store was made with the configured key. */
export const keyCheckName = 'key-check'

const identityPrefix = 'urn:espalier:archive:'

/** The URI in the certificate of a client, which says where it may write and read. */
export const identityOf = ({ databaseId, number }: Incarnation): string => `${identityPrefix}${databaseId}:${number}`

/** Undefined unless `uri` is such a URI. */
export function parseIdentity(uri: string): Incarnation | undefined {
  if (!uri.startsWith(identityPrefix)) return undefined
  const [id = '', number = '', ...others] = uri.slice(identityPrefix.length).split(':')
  return others.length === 0 ? parseIncarnation(id, number) : undefined
}
