/**
 * The records of the authorization server, and the only interface to them. Secrets are stored as hashes, so reading the
 * store is not enough to sign in. Every record expires. Records that unauthenticated clients can create are limited, in
 * total and per owner.
 */
import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { scopes } from '../../mcp-protocol/scopes.ts'

const scopeList = z.array(z.enum(scopes))

/** An authorization request that passed all checks. */
const requestSchema = z.object({
  clientId: z.string(),
  clientName: z.string(),
  redirectUri: z.string(),
  state: z.string().optional(),
  codeChallenge: z.string(),
  scopes: scopeList,
  resource: z.string(),
})

const schemas = {
  /** A registered client. The key is the hash of its id. */
  client: z.object({
    clientName: z.string(),
    redirectUris: z.array(z.string()),
    secretHash: z.string().optional(),
    issuedAt: z.number(),
  }),
  /**
   * A page for a browser, or a redirect to the provider. The key is the hash of the page's CSRF token, or the hash of
   * `state`.
   */
  transaction: z.object({
    request: requestSchema,
    browserHash: z.string(),
    nonce: z.string().optional(),
    verifier: z.string().optional(),
  }),
  /** The key is the hash of the code. */
  code: z.object({ clientId: z.string(), redirectUri: z.string(), codeChallenge: z.string(), grant: z.string() }),
  /** The key is the hash of the refresh token. */
  refresh: z.object({ grant: z.string() }),
  /** A user's grant to a client. After the grant is deleted, none of its codes and tokens is valid. */
  grant: z.object({
    clientId: z.string(),
    subject: z.string(),
    username: z.string(),
    scopes: scopeList,
    resource: z.string(),
  }),
  /** The consent in one browser to one client. The key is the hash of both. */
  consent: z.object({ scopes: scopeList }),
} as const

type Kind = keyof typeof schemas

/** Limits of records that unauthenticated clients can create: per owner, and in total. */
type Bounds = { readonly ofOwner: number; readonly all: number }
type Bounded = 'client' | 'transaction' | 'consent'

const usualBounds: Readonly<Record<Bounded, Bounds>> = {
  client: { ofOwner: 200, all: 10_000 },
  transaction: { ofOwner: 200, all: 20_000 },
  consent: { ofOwner: 1_000, all: 50_000 },
}
/** The share of all records that one eviction removes. Each eviction reads all records, so it removes many. */
const evictedPart = 0.1
/** The share of the free capacity that new records may use before the next count. */
const partUncounted = 0.1

/** A record that an unauthenticated client can create. `owner`: the record counts for the limit of this owner. */
type Offered<K extends Bounded> = {
  readonly kind: K
  readonly owner: string
  readonly key: string
  readonly value: RecordOf<K>
  readonly lifetimeSeconds: number
}
export type RecordOf<K extends Kind> = z.infer<(typeof schemas)[K]>
export type AuthorizationRequest = z.infer<typeof requestSchema>

/** The operations of a database. Times are in milliseconds since 1970. No operation returns expired records. */
export type RawStore = {
  /**
   * `owner`: the owner of a record that an unauthenticated client can create, otherwise empty. Returns false if the key
   * exists.
   */
  insert(kind: string, key: string, value: string, expiresAt: number, owner: string): Promise<boolean>
  /** Of this owner's records that expire until `before`, keeps the `most` newest and deletes the rest. */
  keepNewest(kind: string, owner: string, most: number, before: number): Promise<void>
  /** Deletes `number` records that expire until `before`: the oldest records of the owners with the most records. */
  takeFromLargest(kind: string, number: number, before: number): Promise<void>
  get(kind: string, key: string, now: number): Promise<string | undefined>
  /** Counts the uses of a record atomically. */
  use(kind: string, key: string, now: number): Promise<{ readonly value: string; readonly uses: number } | undefined>
  /** Deletes and returns a record. Of concurrent callers, only one receives it. */
  take(kind: string, key: string, now: number): Promise<string | undefined>
  /** Returns false if the record does not exist. */
  extend(kind: string, key: string, expiresAt: number, now: number): Promise<boolean>
  count(kind: string, now: number): Promise<number>
  sweep(now: number): Promise<void>
  close(): Promise<void>
}

export class Store {
  readonly #raw: RawStore
  readonly #now: () => number
  readonly #bounds: Readonly<Record<Bounded, Bounds>>
  /** How many records may be added before the next count. */
  readonly #uncounted = new Map<Bounded, number>()

  constructor(raw: RawStore, now: () => number, bounds = usualBounds) {
    this.#raw = raw
    this.#now = now
    this.#bounds = bounds
  }

  #read<K extends Kind>(kind: K, text: string): RecordOf<K> {
    // The schema is the schema of this kind, which the union type cannot express.
    return schemas[kind].parse(JSON.parse(text)) as RecordOf<K>
  }

  insert<K extends Exclude<Kind, Bounded>>(
    kind: K,
    key: string,
    value: RecordOf<K>,
    lifetimeSeconds: number,
  ): Promise<boolean> {
    return this.#raw.insert(kind, key, JSON.stringify(value), this.#now() + lifetimeSeconds * 1_000, '')
  }

  /**
   * If the owner is at its limit, deletes the owner's oldest record. If the total limit is reached, deletes the oldest
   * records of the largest owners. Keeps records that expire later than the new record. Returns false if the limit is
   * still reached.
   */
  async offer<K extends Bounded>({ kind, owner, key, value, lifetimeSeconds }: Offered<K>): Promise<boolean> {
    const { ofOwner, all } = this.#bounds[kind]
    const expiresAt = this.#now() + lifetimeSeconds * 1_000
    await this.#raw.keepNewest(kind, owner, ofOwner - 1, expiresAt)
    if (await this.#isFull(kind)) {
      await this.#raw.sweep(this.#now())
      await this.#raw.takeFromLargest(kind, Math.ceil(all * evictedPart), expiresAt)
      if (await this.#isFull(kind)) return false
    }
    return this.#raw.insert(kind, key, JSON.stringify(value), expiresAt, owner)
  }

  /** A count of many records takes long, so the result is cached. Other bridges also add records. */
  async #isFull(kind: Bounded): Promise<boolean> {
    const uncounted = this.#uncounted.get(kind) ?? 0
    this.#uncounted.set(kind, uncounted - 1)
    if (uncounted > 0) return false
    const available = this.#bounds[kind].all - (await this.#raw.count(kind, this.#now()))
    this.#uncounted.set(kind, Math.floor(available * partUncounted))
    return available <= 0
  }

  async get<K extends Kind>(kind: K, key: string): Promise<RecordOf<K> | undefined> {
    const text = await this.#raw.get(kind, key, this.#now())
    return text === undefined ? undefined : this.#read(kind, text)
  }

  async use<K extends Kind>(
    kind: K,
    key: string,
  ): Promise<{ readonly value: RecordOf<K>; readonly isFirst: boolean } | undefined> {
    const used = await this.#raw.use(kind, key, this.#now())
    return used && { value: this.#read(kind, used.value), isFirst: used.uses === 1 }
  }

  async take<K extends Kind>(kind: K, key: string): Promise<RecordOf<K> | undefined> {
    const text = await this.#raw.take(kind, key, this.#now())
    return text === undefined ? undefined : this.#read(kind, text)
  }

  extend(kind: Kind, key: string, lifetimeSeconds: number): Promise<boolean> {
    const now = this.#now()
    return this.#raw.extend(kind, key, now + lifetimeSeconds * 1_000, now)
  }

  sweep(): Promise<void> {
    return this.#raw.sweep(this.#now())
  }

  close(): Promise<void> {
    return this.#raw.close()
  }
}

export const secretText = (): string => randomBytes(32).toString('base64url')

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url')
