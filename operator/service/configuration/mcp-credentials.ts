/** Tokens and users of the tool server and its bridge, as their files have them. */
import { createHmac, scryptSync } from 'node:crypto'
import { tokenDigest } from './token-digest.ts'

type Named = readonly [name: string, secret: string]

export type McpCredentials = {
  tokens: readonly Named[]
  users: readonly Named[]
  /** With which the pod's own probes ask. */
  probe: string
}

type Read =
  | { kind: 'credentials'; credentials: Omit<McpCredentials, 'probe'> }
  | { kind: 'refused'; field: string; rule: string }

const tokenForm = /^[A-Za-z0-9\-._~+/]{1,511}=*$/
const userName = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$/

const listOf = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map(one => one.trim())
    .filter(one => one !== '')

/** Where the user gave no tokens, the one that was minted. */
export function credentialsOf(keys: Readonly<Record<string, string>>, minted: string): Read {
  const given = listOf(keys.init_tokens)
  const wrong = given.findIndex(token => !tokenForm.test(token))
  if (wrong >= 0)
    return refused('init_tokens', `must be tokens of letters, digits and - . _ ~ + /: token ${wrong + 1} is not`)
  const tokens = (given.length > 0 ? given : [minted]).map((token, index): Named => [`initial-${index + 1}`, token])
  const users: Named[] = []
  for (const [index, user] of listOf(keys.init_users).entries()) {
    const [, name = '', password = ''] = /^([^:]+):(.*)$/s.exec(user) ?? []
    const bytes = Buffer.byteLength(password)
    const rule = !userName.test(name)
      ? 'must be name:password, the name of letters, digits and . _ @ + -'
      : bytes < 8 || bytes > 1024
        ? 'must have passwords of 8 to 1024 bytes'
        : users.some(([other]) => other === name)
          ? 'must have each name once'
          : undefined
    if (rule !== undefined) return refused('init_users', `${rule}: user ${index + 1} is not so`)
    users.push([name, password])
  }
  return { kind: 'credentials', credentials: { tokens, users } }
}

const refused = (field: string, rule: string): Read => ({ kind: 'refused', field, rule })

export const tokenFileOf = ({ tokens, probe }: McpCredentials): object => ({
  tokens: Object.fromEntries(
    [...tokens, ['probe', probe] as const].map(([name, token]) => [
      name,
      { hash: tokenDigest(token), expires_at: null },
    ]),
  ),
})

/** As services/authentication/password.ts makes them. The salt is derived, so that the same users make the same files. */
const cost = { logN: 14, r: 8, p: 5 }
const unpadded = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')

function hashed(password: string, salt: Buffer): string {
  const options = { N: 2 ** cost.logN, r: cost.r, p: cost.p, maxmem: 2 ** (cost.logN + 8) * cost.r }
  const hash = scryptSync(password.normalize('NFC'), salt, 32, options)
  return `$scrypt$ln=${cost.logN},r=${cost.r},p=${cost.p}$${unpadded(salt)}$${unpadded(hash)}`
}

type Users = { file: object; hashes: readonly { username: string; password_hash: string }[] }

export function userFileOf({ users }: McpCredentials, saltKey: string): Users {
  const hashes = users.map(([username, password]) => {
    const salt = createHmac('sha256', saltKey).update(`${username}:${password}`).digest().subarray(0, 16)
    return { username, password_hash: hashed(password, salt) }
  })
  return {
    file: { users: Object.fromEntries(hashes.map(({ username, password_hash }) => [username, { password_hash }])) },
    hashes,
  }
}
