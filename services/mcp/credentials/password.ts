/**
 * Passwords, as scrypt hashes that say what they were made with. It promises that hashing keeps no other request waiting: it runs beside the
 * main thread, few at a time, and whoever comes when many wait is told so at once.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { CredentialError } from './errors.ts'

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

const phc = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,64})\$([A-Za-z0-9+/]{32,128})$/

type Hash = { readonly cost: Cost; readonly salt: Buffer; readonly hash: Buffer }

const memoryOf = ({ logN, r }: Cost): number => 128 * 2 ** logN * r

function parseHash(text: string): Hash | undefined {
  const [, logN, r, p, salt, hash] = phc.exec(text) ?? []
  if (salt === undefined || hash === undefined) return undefined
  const cost = { logN: Number(logN), r: Number(r), p: Number(p) }
  if (cost.logN < 1 || cost.r < 1 || cost.p < 1 || cost.p > mostWork || memoryOf(cost) > mostMemory) return undefined
  return { cost, salt: Buffer.from(salt, 'base64'), hash: Buffer.from(hash, 'base64') }
}

export const isPasswordHash = (text: string): boolean => parseHash(text) !== undefined

let running = 0
const waiting: (() => void)[] = []

/** @throws CredentialError where too many wait */
async function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  if (waiting.length >= mostWaiting) throw new CredentialError('too many passwords are being checked')
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

/** The same letters are written in several ways; NFC is one of them. */
const bytesOf = (password: string) => password.normalize('NFC')

const derive = (password: string, { cost, salt }: Pick<Hash, 'cost' | 'salt'>, length: number): Promise<Buffer> =>
  inTurn(
    () =>
      new Promise((resolve, reject) => {
        const options = { N: 2 ** cost.logN, r: cost.r, p: cost.p, maxmem: 2 * memoryOf(cost) }
        scrypt(bytesOf(password), salt, length, options, (error, key) => (error ? reject(error) : resolve(key)))
      }),
  )

const unpadded = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')

/** @throws CredentialError where too many wait */
export async function hashPassword(password: string, cost: Cost = usualCost): Promise<string> {
  const salt = randomBytes(saltBytes)
  const hash = await derive(password, { cost, salt }, hashBytes)
  return `$scrypt$ln=${cost.logN},r=${cost.r},p=${cost.p}$${unpadded(salt)}$${unpadded(hash)}`
}

/** Stands in for the hash of a user who is not there, so that both take the same time. Nothing has this hash. */
const nobody: Hash = { cost: usualCost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes) }

/**
 * Takes as long for a user who is not there, which is undefined, and is false.
 * @throws CredentialError where too many wait
 */
export async function isPassword(password: string, kept: string | undefined): Promise<boolean> {
  const parsed = kept === undefined ? undefined : parseHash(kept)
  const { hash, ...made } = parsed ?? nobody
  const derived = await derive(password, made, hash.length)
  return timingSafeEqual(derived, hash) && parsed !== undefined
}
