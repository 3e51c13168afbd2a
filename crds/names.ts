/**
 * The names of what belongs to a database. They come from its id, not from its name, so that a name of 50 characters
 * never overflows a label, and a database made anew under an old name never meets its predecessor's children.
 */

/** 8 hexadecimal characters: enough beside the name to tell two host labels apart. */
const shortId = (databaseId: string): string => databaseId.replaceAll('-', '').slice(0, 8)

/** `<name>-<short id>`: the database's host label, and the first label of its domain. */
export const hostLabel = (name: string, databaseId: string): string => `${name}-${shortId(databaseId)}`

const base = (databaseId: string): string => `db-${databaseId.replaceAll('-', '').slice(0, 16)}`

export const childNames = {
  service: base,
  /** The StatefulSet of one incarnation; its pod is this with `-0`. */
  statefulSet: (id: string, incarnation: number): string => `${base(id)}-${incarnation}`,
  pod: (id: string, incarnation: number): string => `${base(id)}-${incarnation}-0`,
  claim: (id: string, incarnation: number): string => `${base(id)}-${incarnation}-data`,
  configuration: (id: string, incarnation: number): string => `${base(id)}-${incarnation}-config`,
  credentials: (id: string): string => `${base(id)}-credentials`,
  tls: (id: string): string => `${base(id)}-tls`,
  task: (taskId: string): string => `task-${taskId}`,
} as const
