/** `espalier token`: creates an access token for the embedded installation on this machine. */

import { readSettings } from '../../embedded/settings.ts'
import { mintToken } from '../../embedded/tokens.ts'
import { type Command, parseFlags, UsageError } from '../command.ts'

const help = `Prints an access token for the embedded installation on this machine.

Usage: espalier token [options]

  --tenant ID         the tenant that the token gives access to (default: demo)
  --subject NAME      the token's holder (default: local)
  --expires TIME      the token's validity: 90s, 30m, 12h or 30d (default: 30d)
  --claim NAME=VALUE  an additional claim: JSON, or text; may be repeated

Environment: ESPALIER_HOME, the directory of the installation.`

const seconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 }
const longest = 3650 * 86400

/** Returns the seconds of a duration such as `30d`. @throws UsageError */
function parseDuration(text: string): number {
  const [, count = '', unit = ''] = /^([0-9]{1,9})([smhd])$/.exec(text) ?? []
  const value = Number(count) * (seconds[unit] ?? 0)
  if (value < 1 || value > longest) throw new UsageError('--expires must be like 90s, 30m, 12h or 30d, at most 3650d')
  return value
}

function parseClaim(text: string): [string, unknown] {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`--claim must be NAME=VALUE, not ${JSON.stringify(text)}`)
  const value = text.slice(at + 1)
  try {
    return [text.slice(0, at), JSON.parse(value)]
  } catch {
    return [text.slice(0, at), value]
  }
}

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      tenant: { type: 'string', default: 'demo' },
      subject: { type: 'string', default: 'local' },
      expires: { type: 'string', default: '30d' },
      claim: { type: 'string', multiple: true, default: [] },
    })
    const request = {
      tenant: flags.tenant,
      subject: flags.subject,
      expiresIn: parseDuration(flags.expires),
      claims: Object.fromEntries(flags.claim.map(parseClaim)),
    }
    console.log(await mintToken(readSettings(process.env).home, request))
    return 0
  },
}
export default command
