/**
 * Which API a command talks to, and with which token: what the environment says, else the embedded installation on this
 * machine. A token goes to the API it was given for: the embedded installation's own goes to no other.
 */
// @ts-nocheck

import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { readSettings } from '../../embedded/settings.ts'
import { mintToken } from '../../embedded/tokens.ts'
import type { Api } from '../api-client.ts'
import { UsageError } from '../command.ts'

export const targetHelp = `  ESPALIER_API_URL   the API (default: the embedded installation's, at port ESPALIER_API_PORT of this machine)
  ESPALIER_TOKEN     an access token (default: a new one for the embedded installation in ESPALIER_HOME)
  ESPALIER_API_CA    a file with the authority of the API's certificate (default: the public authorities)
  ESPALIER_API_NAME  what the API's certificate is issued for, where that is not the host of ESPALIER_API_URL`

/** What a command needs a token for: minutes. */
const tokenSeconds = 3600
const defaultTenant = 'demo'

/** `tenant`: of the embedded installation. @throws UsageError naming the variable and the rule */
export async function readTarget(environment: NodeJS.ProcessEnv, tenant: string | undefined): Promise<Api> {
  const { ESPALIER_API_URL: given, ESPALIER_TOKEN: token, ESPALIER_API_CA: file, ESPALIER_API_NAME: name } = environment
  if (token && tenant !== undefined)
    throw new UsageError('--tenant is for tokens that are made here: ESPALIER_TOKEN says itself whose it is')
  if (token && !/^[\x21-\x7e]+$/.test(token)) throw new UsageError('ESPALIER_TOKEN must be a token, without spaces')
  if (given && !token)
    throw new UsageError('ESPALIER_TOKEN must be set with ESPALIER_API_URL: a token that the API accepts')
  return {
    url: given ? urlOf(given) : new URL(`http://127.0.0.1:${readSettings(environment).apiPort}`),
    token: token || (await embeddedToken(environment, tenant ?? defaultTenant)),
    authority: file ? await readAuthority(file) : undefined,
    name: name || undefined,
  }
}

const embeddedToken = (environment: NodeJS.ProcessEnv, tenant: string): Promise<string> =>
  mintToken(readSettings(environment).home, { tenant, subject: 'local', expiresIn: tokenSeconds, claims: {} })

/** Loopback is this machine alone. */
const isThisMachine = ({ hostname }: URL): boolean => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)

const webAddress = z.url({ protocol: /^https?$/ })

function urlOf(text: string): URL {
  const url = webAddress.safeParse(text).success ? new URL(text) : undefined
  const isBase = url !== undefined && /^\/?(managed\/v1\/?)?$/.test(url.pathname) && url.search + url.hash === ''
  if (url === undefined || !isBase || url.username !== '')
    throw new UsageError('ESPALIER_API_URL must be like https://api.example.com, with nothing after it')
  if (url.protocol === 'http:' && !isThisMachine(url))
    throw new UsageError('ESPALIER_API_URL must be https: the token would go over the network in clear text')
  return url
}

async function readAuthority(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`ESPALIER_API_CA: cannot read ${path} (${error.code})`)
  })
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw new UsageError(`ESPALIER_API_CA: ${path} is not PEM`)
  return text
}
