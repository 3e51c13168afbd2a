/** `espalier login`: stores an API and a token as a profile, after a call with that token succeeded. */
import { createInterface } from 'node:readline'
import { Option } from 'commander'
import { readHidden } from '../../server/hidden-input.ts'
import { program } from '../../server/program.ts'
import { escapeControls, printedJson } from '../../values/escape.ts'
import { type Api, claimsOf } from '../api/call.ts'
import { createClient } from '../api/client.ts'
import { act, type ClientCommand, createCommand, type Run } from '../arguments.ts'
import { agree } from '../confirm.ts'
import { ApiFailure, UsageError } from '../errors.ts'
import { type Io, isTerminal } from '../io.ts'
import { checkProfileName, localProfile, type Profile, profilesPath, readProfiles, withProfiles } from '../profiles.ts'
import type { Session } from '../session.ts'
import { apiUrlOf, embeddedUrl, isToken, readAuthority, readTarget } from '../target.ts'

type Options = {
  api?: string
  ca?: string
  certificateName?: string
  profile?: string
  tenant?: string
  method?: 'token' | 'browser' | 'device'
  status?: boolean
  use?: string
  json?: boolean
  yes?: boolean
}

/** The longest token that `isToken` accepts. */
const mostCharacters = 16_384
const defaultName = 'default'

/** Reads the token from a hidden prompt, or from the first line of standard input. @throws UsageError */
async function readToken({ input, errors }: Io): Promise<string> {
  const text = isTerminal(input)
    ? await readHidden(input, errors, { prompt: 'Token: ', what: 'token', mostCharacters })
    : await firstLine(input)
  if (isToken(text.trim())) return text.trim()
  throw new UsageError(
    `the token must be one line of at most ${mostCharacters} printable ASCII characters, without spaces`,
  )
}

async function firstLine(input: Io['input']): Promise<string> {
  const lines = createInterface({ input, terminal: false })
  for await (const line of lines) return line
  throw new UsageError('no token: type it on a terminal, or pass it on standard input')
}

/** Returns the profile's token: the user types it, or the API's OpenID provider issues it. */
async function tokenFor(
  session: Session,
  api: Api,
  options: Options,
  known?: Profile,
): Promise<Pick<Profile, 'token' | 'oidc'>> {
  const { io, printer } = session
  const { method } = options
  if (method === undefined && !isTerminal(io.input)) return { token: await readToken(io) }
  const oidc = method === 'token' ? undefined : await oidcOf(api)
  if (oidc === undefined) {
    if (method === 'browser' || method === 'device')
      throw new UsageError(`this API does not support login with OpenID Connect: use ${program} login --method token`)
    return { token: await readToken(io) }
  }
  // Ask first: a hostile API could name another API's provider, and receive a token for that other API.
  if (known?.oidc?.issuer !== oidc.issuer) {
    const provider = escapeControls(oidc.issuer)
    await agree(
      session,
      options,
      `You log in at the provider ${provider}. The API ${api.url.origin} then receives the token of this login.`,
    )
  }
  const { logInByBrowser, logInByDevice } = await import('../login/oidc.ts')
  const logIn = method === 'device' ? logInByDevice : logInByBrowser
  return await logIn(oidc, { io, note: printer.note })
}

/** Returns the API's OpenID provider, if it has one. An API of an earlier version returns 404 or 401. */
async function oidcOf(api: Api) {
  try {
    return (await createClient(api).login()).oidc
  } catch (error) {
    if (error instanceof ApiFailure && (error.status === 404 || error.status === 401)) return undefined
    throw error
  }
}

async function logIn(session: Session, options: Options): Promise<void> {
  const { io, printer } = session
  const name = checkProfileName(options.profile ?? defaultName)
  const { profiles } = await readProfiles(io.environment)
  const known = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  const apiText = options.api ?? known?.api
  if (apiText === undefined) throw new UsageError('--api must name the API, such as https://api.example.com')
  const url = apiUrlOf('--api', apiText)
  const isSame = known !== undefined && new URL(known.api).href === url.href
  const api: Api = {
    url,
    token: '',
    authority: options.ca ? await readAuthority('--ca', options.ca) : isSame ? known.authority : undefined,
    name: options.certificateName ?? (isSame ? known.name : undefined),
  }
  const credentials = await tokenFor(session, api, options, isSame ? known : undefined)
  // Calls the API before the token is stored: a token that the API refuses is not stored.
  const databases = await createClient({ ...api, token: credentials.token }).list()
  const { authority, name: certificateName } = api
  const profile: Profile = { api: url.origin, ...credentials, authority, name: certificateName }
  await withProfiles(io.environment, (all, write) =>
    write({ current: name, profiles: { ...all.profiles, [name]: profile } }),
  )
  const count = `${databases.length} ${databases.length === 1 ? 'database' : 'databases'}`
  printer.done(`Logged in to ${url.origin}: profile ${name}, ${count}`, name, {
    profile: name,
    api: url.origin,
  })
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : undefined)

async function showStatus({ io, printer }: Session, options: Options): Promise<void> {
  const { current, profiles } = await readProfiles(io.environment)
  const api = await readTarget(io.environment, options)
  const { tenant, sub, exp } = claimsOf(api.token)
  const { ESPALIER_API_URL: url, ESPALIER_TOKEN: token, ESPALIER_PROFILE: named } = io.environment
  const fromEnvironment = options.profile === undefined && Boolean(url || token)
  const chosen = options.tenant === undefined ? (options.profile ?? (named || undefined) ?? current) : undefined
  const used = fromEnvironment ? undefined : (chosen ?? localProfile)
  // The token is valid if this call succeeds.
  const databases = await createClient(api).list()
  const entries = [
    ['profile', used ?? 'none (from ESPALIER_API_URL and ESPALIER_TOKEN)'],
    ['api', api.url.origin],
    ['tenant', textOf(tenant)],
    ['subject', textOf(sub)],
    ['expires', typeof exp === 'number' ? new Date(exp * 1000).toISOString() : undefined],
    ['databases', databases.length],
    ['profiles', [localProfile, ...Object.keys(profiles)].join(', ')],
    ['file', profilesPath(io.environment)],
  ] as const
  if (printer.format === 'json') printer.line(printedJson(Object.fromEntries(entries), 2))
  else printer.one({}, used ?? '', entries)
}

async function useProfile({ io, printer }: Session, name: string): Promise<void> {
  const profiles = await withProfiles(io.environment, async ({ profiles: all }, write) => {
    if (name !== localProfile && !Object.hasOwn(all, name))
      throw new UsageError(
        `--use: there is no profile ${JSON.stringify(name)}; run ${program} login --profile NAME to create a profile`,
      )
    await write({ profiles: all, ...(name === localProfile ? {} : { current: name }) })
    return all
  })
  const api = name === localProfile ? (await embeddedUrl(io.environment)).origin : (profiles[name]?.api ?? '')
  printer.done(`Commands use the profile ${name}: ${escapeControls(api)}`, name)
}

const command: ClientCommand = (run: Run) => {
  const parsed = createCommand(
    run,
    'login',
    'Logs in to an API. The embedded installation on this machine needs no login.',
  )
    .option('--api <url>', 'the API, such as https://api.example.com')
    .option('--ca <file>', "the CA of the API's certificate (default: the public CAs)")
    .option('--certificate-name <name>', "the name in the API's certificate, if it is not the host")
    .addOption(
      new Option(
        '--method <method>',
        'the method (default: browser, if standard input is a terminal and the API has a provider; otherwise token)',
      ).choices(['token', 'browser', 'device']),
    )
    .option('--status', 'shows the API, profile and tenant that commands use')
    .option('-y, --yes', 'does not ask for confirmation before a login at a provider')
    .option('--use <profile>', 'makes this profile the current profile')
    .addHelpText('after', '\nReads the token from a prompt or from standard input, never from the command line.')
  return act<Options>(run, parsed, async (session, _, options) => {
    if (options.status) await showStatus(session, options)
    else if (options.use !== undefined) await useProfile(session, options.use)
    else await logIn(session, options)
  })
}
export default command
