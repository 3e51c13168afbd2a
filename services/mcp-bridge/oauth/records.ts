/**
 * The records of the authorization server, and the one interface to them. Secrets are stored as hashes: reading the
 * store is not enough to sign in. Every record expires, and records that unauthenticated clients can create are
 * limited, in total and per owner.
 */
import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { scopes } from '../../mcp-protocol/scopes.ts'

const scopeList = z.array(z.enum(scopes))

/** A checked authorization request. */
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
  /** Key: the hash of its id. */
  client: z.object({
    clientName: z.string(),
    redirectUris: z.array(z.string()),
    secretHash: z.string().optional(),
    issuedAt: z.number(),
  }),
  /**
   * A page shown to a browser, keyed by the hash of its CSRF token; or a redirect to the provider, keyed by the hash of
   * `state`.
   */
  transaction: z.object({
    request: requestSchema,
    browserHash: z.string(),
    nonce: z.string().optional(),
    verifier: z.string().optional(),
  }),
  /** Key: its hash. */
  code: z.object({ clientId: z.string(), redirectUri: z.string(), codeChallenge: z.string(), grant: z.string() }),
  /** Key: its hash. */
  refresh: z.object({ grant: z.string() }),
  /** A user's grant to a client. After its removal, no code or token of it is valid. */
  grant: z.object({
    clientId: z.string(),
    subject: z.string(),
    username: z.string(),
    scopes: scopeList,
    resource: z.string(),
  }),
  /** This browser's consent to this client; key: the hash of both. */
  consent: z.object({ scopes: scopeList }),
} as const

type Kind = keyof typeof schemas

/** Limits of records that unauthenticated clients can create: of one owner, and in total. */
type Bounds = { readonly ofOwner: number; readonly all: number }
type Bounded = 'client' | 'transaction' | 'consent'

const usualBounds: Readonly<Record<Bounded, Bounds>> = {
  client: { ofOwner: 200, all: 10_000 },
  transaction: { ofOwner: 200, all: 20_000 },
  consent: { ofOwner: 1_000, all: 50_000 },
}
/** The part of all records that an eviction removes, because each eviction reads all of them. */
const evictedPart = 0.1
/** The part of the free capacity that may be used before records are counted again. */
const partUncounted = 0.1

/** A record that an unauthenticated client can create. `owner`: whose limit it counts against, as far as known. */
type Offered<K extends Bounded> = {
  readonly kind: K
  readonly owner: string
  readonly key: string
  readonly value: RecordOf<K>
  readonly lifetimeSeconds: number
}
export type RecordOf<K extends Kind> = z.infer<(typeof schemas)[K]>
export type AuthorizationRequest = z.infer<typeof requestSchema>

/** The operations of a database; times are in milliseconds since 1970. Expired records are not returned. */
export type RawStore = {
  /** `owner`: of a record that an unauthenticated client can create; else empty. Returns false if the key exists. */
  insert(kind: string, key: string, value: string, expiresAt: number, owner: string): Promise<boolean>
  /** Deletes all but the `most` newest of this owner's records that expire until `before`. */
  keepNewest(kind: string, owner: string, most: number, before: number): Promise<void>
  /**
   * Deletes `number` of the records that expire until `before`: each owner's oldest, those of the largest owner first.
   */
  takeFromLargest(kind: string, number: number, before: number): Promise<void>
  get(kind: string, key: string, now: number): Promise<string | undefined>
  /** Counts the uses of a record atomically. */
  use(kind: string, key: string, now: number): Promise<{ readonly value: string; readonly uses: number } | undefined>
  /** Deletes and returns a record; only one caller gets it. */
  take(kind: string, key: string, now: number): Promise<string | undefined>
  /** Returns false if there is none. */
  extend(kind: string, key: string, expiresAt: number, now: number): Promise<boolean>
  count(kind: string, now: number): Promise<number>
  sweep(now: number): Promise<void>
  close(): Promise<void>
}

export class Store {
  readonly #raw: RawStore
  readonly #now: () => number
  readonly #bounds: Readonly<Record<Bounded, Bounds>>
  /** How many records may be added before all are counted again. */
  readonly #uncounted = new Map<Bounded, number>()

  constructor(raw: RawStore, now: () => number, bounds = usualBounds) {
    this.#raw = raw
    this.#now = now
    this.#bounds = bounds
  }

  #read<K extends Kind>(kind: K, text: string): RecordOf<K> {
    // The schema belongs to this kind, which the union type cannot express.
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
   * If the owner is at its limit, deletes the owner's oldest record; if the total limit is reached, the oldest of the
   * largest owners. Records that expire later than this one are not deleted.
   * Returns false if the limit is still reached.
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

  /** Counting many records takes long, so the count is cached. Other bridges add records too. */
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
