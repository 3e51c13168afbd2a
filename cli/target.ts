/**
 * Chooses the API and token of a command: from a profile, the environment, or the embedded installation on this
 * machine. A token is sent only to the API that it was created for.
 */
import { readFile } from 'node:fs/promises'
import { program } from '../server/program.ts'
import type { Api } from './api/call.ts'
import { CommandFailure, NotAuthorised, UsageError } from './errors.ts'
import {
  isWebAddress,
  localProfile,
  type Named,
  type Profile,
  readProfile,
  readProfiles,
  withProfiles,
} from './profiles.ts'

export const targetHelp = `  ESPALIER_API_URL   the API (default: the profile's API, else the embedded installation's)
  ESPALIER_API_PORT  the port of the embedded installation's API
  ESPALIER_TOKEN     an access token; required with ESPALIER_API_URL
                     (default: the profile's token, else a new token for the installation in ESPALIER_HOME)
  ESPALIER_API_CA    without a profile: a file with the CA of the API's certificate (default: the public CAs)
  ESPALIER_API_NAME  without a profile: the name in the API's certificate, if it is not the host of ESPALIER_API_URL
  ESPALIER_PROFILE   a profile from \`${program} login\`; \`local\` means the embedded installation`

/** The lifetime of a new token for the embedded installation. Longer commands renew the token. */
const tokenSeconds = 3600
const defaultTenant = 'demo'

type Chosen = {
  tenant?: string | undefined
  profile?: string | undefined
  /**
   * If false, an expired token is an error. Completion sets this to false: its process can end before it stores the new
   * refresh token.
   */
  renews?: boolean | undefined
}

/**
 * Returns the API that a command calls. Uses, in this order: --profile, the variables ESPALIER_API_URL and
 * ESPALIER_TOKEN, `tenant` (of the embedded installation), ESPALIER_PROFILE, the current profile, the embedded
 * installation.
 * @throws UsageError that names the invalid variable or option
 */
export async function readTarget(
  environment: NodeJS.ProcessEnv,
  { tenant, profile, renews = true }: Chosen,
): Promise<Api> {
  const { ESPALIER_API_URL: url, ESPALIER_TOKEN: token } = environment
  if (profile !== undefined && tenant !== undefined && profile !== localProfile)
    throw new UsageError('--tenant applies only to the embedded installation: the token of a profile names its tenant')
  if (profile === undefined && (url || token)) {
    if (!url) await refuseLoneToken(environment)
    return ofEnvironment(environment, tenant)
  }
  const name = tenant === undefined ? (profile ?? (environment.ESPALIER_PROFILE || undefined)) : localProfile
  const found = name === localProfile ? undefined : await readProfile(environment, name)
  if (found !== undefined) return ofProfile(environment, found, renews)
  // The profile `local` ignores the variables that describe another API.
  const { ESPALIER_API_URL: _, ESPALIER_TOKEN: __, ESPALIER_API_CA: ___, ESPALIER_API_NAME: ____, ...own } = environment
  return ofEnvironment(name === localProfile ? own : environment, tenant)
}

/**
 * Refuses a token without an API if profiles exist: the token may belong to the API of a profile. Without profiles, the
 * token is for the embedded installation.
 */
async function refuseLoneToken(environment: NodeJS.ProcessEnv): Promise<void> {
  if (Object.keys((await readProfiles(environment)).profiles).length === 0) return
  throw new UsageError('ESPALIER_TOKEN requires ESPALIER_API_URL, because the token may belong to the API of a profile')
}

async function ofEnvironment(environment: NodeJS.ProcessEnv, tenant: string | undefined): Promise<Api> {
  const { ESPALIER_API_URL: url, ESPALIER_TOKEN: token, ESPALIER_API_CA: file, ESPALIER_API_NAME: name } = environment
  if (token && tenant !== undefined)
    throw new UsageError('--tenant cannot be used with ESPALIER_TOKEN: the token already names its tenant')
  if (token && !isToken(token))
    throw new UsageError('ESPALIER_TOKEN must have at most 16384 printable ASCII characters, without spaces')
  if (url && !token) throw new UsageError('ESPALIER_API_URL requires ESPALIER_TOKEN')
  return {
    url: url ? apiUrlOf('ESPALIER_API_URL', url) : await embeddedUrl(environment),
    token: token || (await embeddedToken(environment, tenant ?? defaultTenant)),
    authority: file ? await readAuthority('ESPALIER_API_CA', file) : undefined,
    name: name || undefined,
    renew: token ? undefined : () => ofEnvironment(environment, tenant),
    advice: url ? undefined : 'start the embedded installation with `make run`',
  }
}

/** Returns the URL of the embedded installation's API. */
export async function embeddedUrl(environment: NodeJS.ProcessEnv): Promise<URL> {
  return new URL(`http://127.0.0.1:${(await settingsOf(environment)).apiPort}`)
}

/** Imports the settings only if they are needed, so that a command with an API and a token starts faster. */
async function settingsOf(environment: NodeJS.ProcessEnv) {
  const { readSettings } = await import('../embedded/settings.ts')
  try {
    return readSettings(environment)
  } catch (error) {
    // readSettings throws if a variable has an invalid value.
    throw error instanceof Error ? new UsageError(error.message) : error
  }
}

export const isToken = (text: string): boolean => /^[\x21-\x7e]{1,16384}$/.test(text)

/** A token is renewed if it expires within this time. */
const marginMs = 30_000

/** Returns the API of a profile. Renews an expired token of an OpenID provider first. */
async function ofProfile(environment: NodeJS.ProcessEnv, { name, profile }: Named, renews: boolean): Promise<Api> {
  const usableOf = ({ api, token, authority, name: certificateName }: Profile): Api => ({
    ...{ url: apiUrlOf(`the API of the profile ${name}`, api), token, authority },
    name: certificateName,
    // Reads the profile again by its name, because another profile may be current now.
    renew: async () => ofProfile(environment, (await readProfile(environment, name)) ?? { name, profile }, renews),
  })
  if (isCurrent(profile)) return usableOf(profile)
  if (!renews) throw new NotAuthorised(`the token of the profile ${name} has expired`)
  // A provider may accept a refresh token only once: under the lock, one process uses the token and stores the new one.
  return await withProfiles(environment, async (all, write) => {
    const present = Object.hasOwn(all.profiles, name) ? all.profiles[name] : undefined
    if (present === undefined) throw new CommandFailure(`the profile ${name} was deleted meanwhile`)
    if (present.oidc === undefined || isCurrent(present)) return usableOf(present)
    const { refresh } = await import('./login/oidc.ts')
    const renewed = { ...present, ...(await refresh(present.oidc)) }
    await write({ ...all, profiles: { ...all.profiles, [name]: renewed } })
    return usableOf(renewed)
  })
}

const isCurrent = ({ oidc }: Profile): boolean =>
  oidc?.expiresAt === undefined || oidc.expiresAt > Date.now() + marginMs

async function embeddedToken(environment: NodeJS.ProcessEnv, tenant: string): Promise<string> {
  const { mintToken } = await import('../embedded/tokens.ts')
  const request = { tenant, subject: 'local', expiresIn: tokenSeconds, claims: {} }
  const { home } = await settingsOf(environment)
  return await mintToken(home, request).catch((error: unknown) => {
    const isWrongTenant = error instanceof Error && error.message.startsWith('--tenant ')
    throw isWrongTenant ? new UsageError(error.message) : error
  })
}

/** Whether the URL's host is a loopback address. */
const isThisMachine = ({ hostname }: URL): boolean => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)

/** `source`: the flag or variable that the URL is from. @throws UsageError */
export function apiUrlOf(source: string, text: string): URL {
  const url = isWebAddress(text) ? new URL(text) : undefined
  const isBase = url !== undefined && /^\/?(managed\/v1\/?)?$/.test(url.pathname) && url.search + url.hash === ''
  if (url === undefined || !isBase || url.username !== '')
    throw new UsageError(`${source} must be like https://api.example.com, without a path or query`)
  if (url.protocol === 'http:' && !isThisMachine(url))
    throw new UsageError(`${source} must be https: otherwise the token would be sent in clear text`)
  return url
}

/** `source`: the flag or variable that the path is from. @throws UsageError */
export async function readAuthority(source: string, path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${source}: cannot read ${path} (${error.code})`)
  })
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw new UsageError(`${source}: ${path} is not PEM`)
  return text
}
