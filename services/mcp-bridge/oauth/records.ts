/**
 * What the authorization server keeps, and the one interface it keeps it by. Secrets are keys, and keys are hashes: who reads the store can sign in as nobody. Everything has an end, and what
 * strangers can make has bounds that hold for each of them.
 */
import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { scopes } from '../../mcp-protocol/scopes.ts'

const scopeList = z.array(z.enum(scopes))

/** What an authorization request asks for, once it has been checked. */
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
  /** By the hash of its id. */
  client: z.object({
    clientName: z.string(),
    redirectUris: z.array(z.string()),
    secretHash: z.string().optional(),
    issuedAt: z.number(),
  }),
  /** A page that was shown to a browser, by the hash of its CSRF token; a way to the provider, by the hash of `state`. */
  transaction: z.object({
    request: requestSchema,
    browserHash: z.string(),
    nonce: z.string().optional(),
    verifier: z.string().optional(),
  }),
  /** By its hash. */
  code: z.object({ clientId: z.string(), redirectUri: z.string(), codeChallenge: z.string(), grant: z.string() }),
  /** By its hash. */
  refresh: z.object({ grant: z.string() }),
  /** What a user has allowed a client. Once it is removed, nothing that was made of it is good any more. */
  grant: z.object({
    clientId: z.string(),
    subject: z.string(),
    username: z.string(),
    scopes: scopeList,
    resource: z.string(),
  }),
  /** That this browser has allowed this client before, by the hash of both. */
  consent: z.object({ scopes: scopeList }),
} as const

type Kind = keyof typeof schemas

/** How many records there may be that anybody can make: of one owner, and in all. */
type Bounds = { readonly ofOwner: number; readonly all: number }
type Bounded = 'client' | 'transaction' | 'consent'

const usualBounds: Readonly<Record<Bounded, Bounds>> = {
  client: { ofOwner: 200, all: 10_000 },
  transaction: { ofOwner: 200, all: 20_000 },
  consent: { ofOwner: 1_000, all: 50_000 },
}
/** Of all, when there is no room: making room takes a look at each. */
const partTaken = 0.1
/** Of the room that is left. */
const partUncounted = 0.1

/** A record that anybody can make. `owner`: at whose cost, as far as that can be known. */
type Offered<K extends Bounded> = {
  readonly kind: K
  readonly owner: string
  readonly key: string
  readonly value: RecordOf<K>
  readonly lifetimeSeconds: number
}
export type RecordOf<K extends Kind> = z.infer<(typeof schemas)[K]>
export type AuthorizationRequest = z.infer<typeof requestSchema>

/** What a database has to offer; times are in milliseconds since 1970. What has expired is not there. */
export type RawStore = {
  /** `owner`: of what a stranger makes; else empty. @returns false where there is one of this key */
  insert(kind: string, key: string, value: string, expiresAt: number, owner: string): Promise<boolean>
  /** Of what this owner has that expires until `before`, all go but so many of the newest. */
  keepNewest(kind: string, owner: string, most: number, before: number): Promise<void>
  /** So many go of what expires until `before`: each owner's oldest, beginning with whoever has most. */
  takeFromLargest(kind: string, number: number, before: number): Promise<void>
  get(kind: string, key: string, now: number): Promise<string | undefined>
  /** Counts its uses, each exactly once. */
  use(kind: string, key: string, now: number): Promise<{ readonly value: string; readonly uses: number } | undefined>
  /** @returns what it was; to one asker alone */
  take(kind: string, key: string, now: number): Promise<string | undefined>
  /** @returns false where there is none */
  extend(kind: string, key: string, expiresAt: number, now: number): Promise<boolean>
  count(kind: string, now: number): Promise<number>
  sweep(now: number): Promise<void>
  close(): Promise<void>
}

export class Store {
  readonly #raw: RawStore
  readonly #now: () => number
  readonly #bounds: Readonly<Record<Bounded, Bounds>>
  /** How many may be offered before all are counted again. */
  readonly #uncounted = new Map<Bounded, number>()

  constructor(raw: RawStore, now: () => number, bounds = usualBounds) {
    this.#raw = raw
    this.#now = now
    this.#bounds = bounds
  }

  #read<K extends Kind>(kind: K, text: string): RecordOf<K> {
    // The schema is the one of this kind, which the type of a union cannot say.
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
   * Where the owner has as many as one may have, its oldest goes; where there are as many as there may be, the oldest of whoever has most. What has been given a longer life stays.
   * @returns false where there is no room for it
   */
  async offer<K extends Bounded>({ kind, owner, key, value, lifetimeSeconds }: Offered<K>): Promise<boolean> {
    const { ofOwner, all } = this.#bounds[kind]
    const expiresAt = this.#now() + lifetimeSeconds * 1_000
    await this.#raw.keepNewest(kind, owner, ofOwner - 1, expiresAt)
    if (await this.#isFull(kind)) {
      await this.#raw.sweep(this.#now())
      await this.#raw.takeFromLargest(kind, Math.ceil(all * partTaken), expiresAt)
      if (await this.#isFull(kind)) return false
    }
    return this.#raw.insert(kind, key, JSON.stringify(value), expiresAt, owner)
  }

  /** To count takes long where there are many, and other bridges add to them. */
  async #isFull(kind: Bounded): Promise<boolean> {
    const uncounted = this.#uncounted.get(kind) ?? 0
    this.#uncounted.set(kind, uncounted - 1)
    if (uncounted > 0) return false
    const room = this.#bounds[kind].all - (await this.#raw.count(kind, this.#now()))
    this.#uncounted.set(kind, Math.floor(room * partUncounted))
    return room <= 0
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
