/** Tokens and users of the tool server and its bridge, in the format of their files. */
import { createHmac, scrypt } from 'node:crypto'
import { mostInitial } from '../../../crds/service-rules.ts'
import { tokenDigest } from './token-digest.ts'

type Named = readonly [name: string, secret: string]

export type McpCredentials = {
  tokens: readonly Named[]
  users: readonly Named[]
}

type Read = { kind: 'credentials'; credentials: McpCredentials } | { kind: 'refused'; field: string; rule: string }

const tokenForm = /^[A-Za-z0-9\-._~+/]{1,511}=*$/
const userName = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$/

const listOf = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map(one => one.trim())
    .filter(one => one !== '')

/** Uses the generated token if the user gave none. */
export function credentialsOf(keys: Readonly<Record<string, string>>, minted: string): Read {
  const given = listOf(keys.init_tokens)
  if (given.length > mostInitial.tokens) return refused('init_tokens', `must hold at most ${mostInitial.tokens} tokens`)
  const wrong = given.findIndex(token => !tokenForm.test(token))
  if (wrong >= 0)
    return refused('init_tokens', `must be tokens of letters, digits and - . _ ~ + /: token ${wrong + 1} is not`)
  const tokens = (given.length > 0 ? given : [minted]).map((token, index): Named => [`initial-${index + 1}`, token])
  const pairs = listOf(keys.init_users)
  if (pairs.length > mostInitial.users) return refused('init_users', `must hold at most ${mostInitial.users} users`)
  const users: Named[] = []
  for (const [index, user] of pairs.entries()) {
    const [, name = '', password = ''] = /^([^:]+):(.*)$/s.exec(user) ?? []
    const bytes = Buffer.byteLength(password)
    const rule = !userName.test(name)
      ? 'must be name:password, the name of letters, digits and . _ @ + -'
      : bytes < 8 || bytes > 1024
        ? 'must have passwords of 8 to 1024 bytes'
        : users.some(([other]) => other === name)
          ? 'must not have a name twice'
          : undefined
    if (rule !== undefined) return refused('init_users', `${rule}: user ${index + 1} is invalid`)
    users.push([name, password])
  }
  return { kind: 'credentials', credentials: { tokens, users } }
}

const refused = (field: string, rule: string): Read => ({ kind: 'refused', field, rule })

export const tokenFileOf = ({ tokens }: McpCredentials): object => ({
  tokens: Object.fromEntries(tokens.map(([name, token]) => [name, { hash: tokenDigest(token), expires_at: null }])),
})

/**
 * The same hashes as in services/authentication/password.ts. The salt is derived from the users, so that the same users
 * give the same files.
 */
const cost = { logN: 14, r: 8, p: 5 }
const unpadded = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')

/**
 * Hashes passwords one after the other, over all databases: each hash uses one of the few threads that file access and
 * DNS also need.
 */
let last: Promise<unknown> = Promise.resolve()

function hashed(password: string, salt: Buffer): Promise<string> {
  const work = last.then(() => hashNow(password, salt))
  last = work.catch(() => {})
  return work
}

function hashNow(password: string, salt: Buffer): Promise<string> {
  const options = { N: 2 ** cost.logN, r: cost.r, p: cost.p, maxmem: 2 ** (cost.logN + 8) * cost.r }
  const form = `$scrypt$ln=${cost.logN},r=${cost.r},p=${cost.p}$${unpadded(salt)}$`
  return new Promise((resolve, reject) =>
    scrypt(password.normalize('NFC'), salt, 32, options, (error, hash) =>
      error === null ? resolve(`${form}${unpadded(hash)}`) : reject(error),
    ),
  )
}

type Users = { file: object; hashes: readonly { username: string; password_hash: string }[] }

export async function userFileOf({ users }: McpCredentials, saltKey: string): Promise<Users> {
  const hashes: { username: string; password_hash: string }[] = []
  for (const [username, password] of users) {
    const salt = createHmac('sha256', saltKey).update(`${username}:${password}`).digest().subarray(0, 16)
    hashes.push({ username, password_hash: await hashed(password, salt) })
  }
  return {
    file: { users: Object.fromEntries(hashes.map(({ username, password_hash }) => [username, { password_hash }])) },
    hashes,
  }
}
