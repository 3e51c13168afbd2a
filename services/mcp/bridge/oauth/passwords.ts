/** Passwords as scrypt hashes, computed off the main thread. A user who does not exist takes as long as one who does. */
import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'

type Hash = {
  readonly cost: number
  readonly blockSize: number
  readonly parallelization: number
  readonly salt: Buffer
  readonly hash: Buffer
}

const defaults = { cost: 32_768, blockSize: 8, parallelization: 1 }
const maximumMemory = 268_435_456

/** undefined where it is none, or one that would take all memory. */
export function readHash(text: string): Hash | undefined {
  const [, cost = '', blockSize = '', parallelization = '', salt = '', hash = ''] =
    /^scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([\w-]{16,128})\$([\w-]{32,128})$/.exec(text) ?? []
  const read = {
    cost: Number(cost),
    blockSize: Number(blockSize),
    parallelization: Number(parallelization),
    salt: Buffer.from(salt, 'base64url'),
    hash: Buffer.from(hash, 'base64url'),
  }
  const isPower = read.cost >= 1_024 && Number.isInteger(Math.log2(read.cost))
  const fits = 128 * read.cost * read.blockSize * 2 <= maximumMemory && read.parallelization <= 16
  return isPower && fits && read.blockSize > 0 && read.parallelization > 0 && salt !== '' ? read : undefined
}

function derive(password: string, salt: Buffer, length: number, options: ScryptOptions): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password.normalize('NFKC'), salt, length, { ...options, maxmem: maximumMemory }, (error, key) =>
      error === null ? resolve(key) : reject(error),
    )
  })
}

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16)
  const { cost, blockSize, parallelization } = defaults
  const hash = await derive(password, salt, 32, defaults)
  return `scrypt$${cost}$${blockSize}$${parallelization}$${salt.toString('base64url')}$${hash.toString('base64url')}`
}

const nobodys = { ...defaults, salt: randomBytes(16), hash: randomBytes(32) }

/** @param hash undefined: there is no such user */
export async function isPassword(password: string, hash: string | undefined): Promise<boolean> {
  const known = (hash === undefined ? undefined : readHash(hash)) ?? nobodys
  const { cost, blockSize, parallelization } = known
  const derived = await derive(password, known.salt, known.hash.length, { cost, blockSize, parallelization })
  return timingSafeEqual(derived, known.hash) && known !== nobodys
}
