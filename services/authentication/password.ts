/**
 * Passwords, as scrypt hashes that say what they were made with, of the tool server's users and of the bridge's. It promises that hashing keeps no other request waiting: it runs
 * beside the main thread, few at a time, and whoever comes when many wait is told so at once.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { availableParallelism } from 'node:os'

/** As many passwords wait to be checked as may. */
export class PasswordsBusy extends Error {
  constructor() {
    super('too many passwords are being checked')
    this.name = 'PasswordsBusy'
  }
}

type Cost = { readonly logN: number; readonly r: number; readonly p: number }

/** As OWASP recommends it, in the form that takes 16 MiB. */
const usualCost: Cost = { logN: 14, r: 8, p: 5 }
/** What a hash in a file may ask for: 256 MiB. */
const mostMemory = 268_435_456
const mostWork = 16
const hashBytes = 32
const saltBytes = 16

/** Each takes a core for a while. */
const atOnce = Math.max(1, Math.min(2, availableParallelism() - 1))
const mostWaiting = 100

export const passwordRule = 'must be 8 to 1024 bytes long'
export const isAcceptable = (password: string): boolean => {
  const bytes = Buffer.byteLength(password)
  return bytes >= 8 && bytes <= 1024
}

/** As hashes are made. */
const phc = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,64})\$([A-Za-z0-9+/]{32,128})$/
/** As the bridge made them before, with N itself, in base64url. */
const formerly = /^scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([\w-]{16,128})\$([\w-]{32,128})$/

type Hash = {
  readonly cost: Cost
  readonly salt: Buffer
  readonly hash: Buffer
  /** The same letters are written in several ways; this is the one that was hashed. */
  readonly letters: 'NFC' | 'NFKC'
}

const memoryOf = ({ logN, r }: Cost): number => 128 * 2 ** logN * r

const isBearable = (cost: Cost): boolean =>
  Number.isInteger(cost.logN) &&
  ![cost.logN, cost.r, cost.p].some(one => one < 1) &&
  cost.p <= mostWork &&
  memoryOf(cost) <= mostMemory

function parseHash(text: string): Hash | undefined {
  const isFormer = text.startsWith('scrypt$')
  const [, n, r, p, salt, hash] = (isFormer ? formerly : phc).exec(text) ?? []
  if (salt === undefined || hash === undefined) return undefined
  const cost = { logN: isFormer ? Math.log2(Number(n)) : Number(n), r: Number(r), p: Number(p) }
  // Both forms of base64 are read alike.
  const [saltRead, hashRead] = [Buffer.from(salt, 'base64'), Buffer.from(hash, 'base64')]
  return isBearable(cost) ? { cost, salt: saltRead, hash: hashRead, letters: isFormer ? 'NFKC' : 'NFC' } : undefined
}

export const isPasswordHash = (text: string): boolean => parseHash(text) !== undefined

let running = 0
const waiting: (() => void)[] = []

/** @throws PasswordsBusy */
async function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  if (waiting.length >= mostWaiting) throw new PasswordsBusy()
  if (running >= atOnce) await new Promise<void>(resolve => waiting.push(resolve))
  else running++
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    // Whoever waits takes over the place.
    if (next === undefined) running--
    else next()
  }
}

const derive = (password: string, { cost, salt, letters }: Omit<Hash, 'hash'>, length: number): Promise<Buffer> =>
  inTurn(
    () =>
      new Promise((resolve, reject) => {
        const options = { N: 2 ** cost.logN, r: cost.r, p: cost.p, maxmem: 2 * memoryOf(cost) }
        scrypt(password.normalize(letters), salt, length, options, (error, key) =>
          error ? reject(error) : resolve(key),
        )
      }),
  )

const unpadded = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')

/** @throws PasswordsBusy */
export async function hashPassword(password: string, cost: Cost = usualCost): Promise<string> {
  const salt = randomBytes(saltBytes)
  const hash = await derive(password, { cost, salt, letters: 'NFC' }, hashBytes)
  return `$scrypt$ln=${cost.logN},r=${cost.r},p=${cost.p}$${unpadded(salt)}$${unpadded(hash)}`
}

/** Stands in for the hash of a user who is not there, so that both take the same time. Nothing has this hash. */
const nobody: Hash = { cost: usualCost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes), letters: 'NFC' }

/**
 * Takes as long for a user who is not there, which is undefined, and is false. `another`: of some user who is, where hashes are not made as they are made here.
 * @throws PasswordsBusy
 */
export async function isPassword(password: string, kept: string | undefined, another?: string): Promise<boolean> {
  const parsed = kept === undefined ? undefined : parseHash(kept)
  const { hash, ...made } = parsed ?? (another === undefined ? undefined : parseHash(another)) ?? nobody
  const derived = await derive(password, made, hash.length)
  return timingSafeEqual(derived, hash) && parsed !== undefined
}
