/**
 * Password hashing with scrypt, for users of the tool server and the bridge. The hash contains its parameters. Hashing
 * runs on other threads, so it does not block requests. Only a few hashes run at a time, and a check is refused at once
 * if too many wait.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { availableParallelism } from 'node:os'

/** The maximum number of waiting password checks is reached. */
export class PasswordsBusy extends Error {
  constructor() {
    super('too many passwords are being checked')
    this.name = 'PasswordsBusy'
  }
}

type Cost = { readonly logN: number; readonly r: number; readonly p: number }

/** OWASP's recommendation: the variant that needs 16 MiB. */
const usualCost: Cost = { logN: 14, r: 8, p: 5 }
/** The maximum cost of a hash from a file: 256 MiB. */
const mostMemory = 268_435_456
const mostWork = 16
const hashBytes = 32
const saltBytes = 16

/** The maximum concurrent checks. Each check uses one core for a while. */
const atOnce = Math.max(1, Math.min(2, availableParallelism() - 1))
const mostWaiting = 100

export const passwordRule = 'must be 8 to 1024 bytes long'
export const isAcceptable = (password: string): boolean => {
  const bytes = Buffer.byteLength(password)
  return bytes >= 8 && bytes <= 1024
}

/** The current format. */
const phc = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,64})\$([A-Za-z0-9+/]{32,128})$/
/** The bridge's older format, with N itself, in base64url. */
const formerly = /^scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([\w-]{16,128})\$([\w-]{32,128})$/

type Hash = {
  readonly cost: Cost
  readonly salt: Buffer
  readonly hash: Buffer
  /** Unicode has several spellings of the same letters. Hashes use this spelling. */
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
  // Accepts both Base64 alphabets.
  const [saltRead, hashRead] = [Buffer.from(salt, 'base64'), Buffer.from(hash, 'base64')]
  return isBearable(cost) ? { cost, salt: saltRead, hash: hashRead, letters: isFormer ? 'NFKC' : 'NFC' } : undefined
}

export const isPasswordHash = (text: string): boolean => parseHash(text) !== undefined

let running = 0
const waiting: (() => void)[] = []

/** @throws PasswordsBusy */
async function queued<Result>(work: () => Promise<Result>): Promise<Result> {
  if (waiting.length >= mostWaiting) throw new PasswordsBusy()
  if (running >= atOnce) await new Promise<void>(resolve => waiting.push(resolve))
  else running++
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    // The next waiting call takes the slot.
    if (next === undefined) running--
    else next()
  }
}

const derive = (password: string, { cost, salt, letters }: Omit<Hash, 'hash'>, length: number): Promise<Buffer> =>
  queued(
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

/** Used for a user who does not exist, so that both cases take the same time. No password has this hash. */
const dummyHash: Hash = { cost: usualCost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes), letters: 'NFC' }

/**
 * Checks a password. `hash`: undefined if the user does not exist; then the check takes the same time and returns
 * false. `another`: the hash of an existing user, if hashes do not have the parameters of this file.
 * @throws PasswordsBusy
 */
export async function isPassword(password: string, stored: string | undefined, another?: string): Promise<boolean> {
  const parsed = stored === undefined ? undefined : parseHash(stored)
  const { hash, ...made } = parsed ?? (another === undefined ? undefined : parseHash(another)) ?? dummyHash
  const derived = await derive(password, made, hash.length)
  return timingSafeEqual(derived, hash) && parsed !== undefined
}
