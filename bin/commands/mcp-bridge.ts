/** `espalier mcp-bridge`: adds HTTP, sessions and OAuth to an MCP server that uses stdio. */
import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import { stopSignal } from '../../server/signals.ts'
import { hashPassword } from '../../services/authentication/password.ts'
import { reportProbe } from '../../services/http/probe.ts'
import { readBridgeConfiguration } from '../../services/mcp-bridge/configuration.ts'
import { probeTools } from '../../services/mcp-protocol/probe.ts'
import { samplesAddress } from '../../services/samples/index.ts'
import { type Command, parseFlags, UsageError } from '../command.ts'

const help = `Serves a stdio MCP server over HTTP, at /mcp and /.

Usage: espalier mcp-bridge -c CONFIG
       espalier mcp-bridge -c CONFIG --ready [--token-file FILE]
       espalier mcp-bridge -c CONFIG --rotate-key
       espalier mcp-bridge --hash-password < FILE

  -c, --config CONFIG  a YAML file (docs/mcp.md lists the keys)
  --ready              calls a read-only tool through a running bridge with this configuration; exits with 0 if it responds, else with 1
  --token-file FILE    the file with the bearer token for --ready
  --hash-password      reads a password from stdin and prints the hash for oauth_server.builtin.users
  --rotate-key         creates a new key, which signs access tokens after the next start`

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      config: { type: 'string', short: 'c' },
      'hash-password': { type: 'boolean' },
      'rotate-key': { type: 'boolean' },
      ready: { type: 'boolean' },
      'token-file': { type: 'string' },
    })
    if (flags['hash-password'] === true) {
      console.log(await hashPassword((await text(process.stdin)).replace(/\r?\n$/, '')))
      return 0
    }
    if (flags.config === undefined) throw new UsageError('-c CONFIG is missing; see --help')
    const settings = readBridgeConfiguration(flags.config, process.env)
    if (flags.ready === true) {
      const file = flags['token-file']
      const token = file === undefined ? undefined : readFileSync(file, 'utf8').trim()
      const { host, port, tls } = settings
      return reportProbe(await probeTools({ host: host || '*', port, isTls: tls !== undefined, path: '/mcp' }, token))
    }
    const logger = pino({ level: settings.logLevel }, pino.destination({ dest: 2, sync: false }))
    const stopped = stopSignal()
    const stop = new AbortController()
    void stopped.then(() => stop.abort())
    const stopping = stop.signal
    if (flags['rotate-key'] === true) {
      if (settings.oauth === undefined) throw new UsageError('--rotate-key requires oauth_server.enabled: true')
      const { rotateSigningKey } = await import('../../services/mcp-bridge/oauth/index.ts')
      console.log(await rotateSigningKey(settings.oauth, logger, stopping))
      return 0
    }
    const { startBridge } = await import('../../services/mcp-bridge/index.ts')
    const bridge = await startBridge(settings, logger, { stopping, samples: samplesAddress(process.env) }).catch(
      (error: unknown) => {
        if (stopping.aborted) return undefined
        throw error
      },
    )
    if (bridge === undefined) return 0
    const { address, port, family } = bridge.address
    const scheme = settings.tls === undefined ? 'http' : 'https'
    console.log(`espalier mcp-bridge listens on ${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`)
    await stopped
    await bridge.stop()
    return 0
  },
}
export default command
