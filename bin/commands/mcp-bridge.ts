/** `espalier mcp-bridge`: HTTP, sessions and OAuth in front of a tool server that speaks MCP over stdio. */
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import { stopSignal } from '../../server/signals.ts'
import { hashPassword } from '../../services/authentication/password.ts'
import { readBridgeConfiguration } from '../../services/mcp-bridge/configuration.ts'
import { startBridge } from '../../services/mcp-bridge/index.ts'
import { type Command, parseFlags, UsageError } from '../command.ts'

const help = `Serves a tool server that speaks MCP over stdio at /mcp and / by HTTP.

Usage: espalier mcp-bridge -c CONFIG
       espalier mcp-bridge -c CONFIG --rotate-key
       espalier mcp-bridge --hash-password < FILE

  -c, --config CONFIG  a YAML file (docs/mcp.md lists the keys)
  --hash-password      reads a password from stdin and prints the hash for oauth_server.builtin.users
  --rotate-key         makes a new key that access tokens are signed with from the next start on`

const command: Command = {
  summary: 'put HTTP, sessions and OAuth in front of an MCP tool server',
  help,
  async run(args) {
    const flags = parseFlags(args, {
      config: { type: 'string', short: 'c' },
      'hash-password': { type: 'boolean' },
      'rotate-key': { type: 'boolean' },
    })
    if (flags['hash-password'] === true) {
      console.log(await hashPassword((await text(process.stdin)).replace(/\r?\n$/, '')))
      return 0
    }
    if (flags.config === undefined) throw new UsageError('-c CONFIG is missing; --help tells more')
    const settings = readBridgeConfiguration(flags.config, process.env)
    if (flags['rotate-key'] === true) {
      if (settings.oauth === undefined) throw new UsageError('--rotate-key takes oauth_server.enabled: true')
      const { rotateKeys } = await import('../../services/mcp-bridge/oauth/keys.ts')
      console.log(await rotateKeys(settings.oauth.keyFile))
      return 0
    }
    const logger = pino({ level: settings.logLevel }, pino.destination({ dest: 2, sync: false }))
    const stopped = stopSignal()
    const bridge = await startBridge(settings, logger)
    const { address, port, family } = bridge.address
    const scheme = settings.tls === undefined ? 'http' : 'https'
    console.log(`espalier mcp-bridge listens on ${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`)
    await stopped
    await bridge.stop()
    return 0
  },
}
export default command
