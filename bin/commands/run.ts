/** `espalier run`: the embedded default, in the foreground, until it is told to stop. */
import { pino } from 'pino'
import { startInstallation } from '../../embedded/installation.ts'
import type { Copies } from '../../embedded/runtime/index.ts'
import { readSettings } from '../../embedded/settings.ts'
import { mintToken } from '../../embedded/tokens.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, logLevel, parseFlags } from '../command.ts'

const help = `Starts Espalier on this machine: API, operator, gateway and a one-machine cluster, in one process tree.
For trying, developing and tests; beyond one machine the engine is Kubernetes.

Usage: espalier run

Environment:
  ESPALIER_HOME        where data stands (default: .espalier in the checkout, as root /var/lib/espalier)
  ESPALIER_LISTEN      127.0.0.1 (default), or 0.0.0.0 in a container whose ports are published
  ESPALIER_API_PORT    port of the API (default: 8080)
  ESPALIER_HTTPS_PORT  port of the services of databases (default: 8443)
  ESPALIER_PORTS       first port of the databases, or FIRST-LAST (default: 15432); the last serves metrics
  ESPALIER_USER        as root: the user that Postgres runs as (default: espalier, postgres or nobody)
  ESPALIER_POOL        auto or off: as root, whether to make a file system in the home for copies that share their blocks,
                       where the home's own cannot (default: auto)
  ESPALIER_LOG         trace, debug, info, warn or error (default: warn)

When it is ready it prints lines that begin with API, TOKEN, DOCS and HTTPS.`

const day = 86400

/** What the user can expect of backups and branches here. */
const storageLine = (copies: Copies): string =>
  copies.kind === 'whole'
    ? `STORAGE copies are whole: each backup and branch takes time and room as its data (${copies.why})`
    : `STORAGE copies share blocks: backups and branches take little time and room (${copies.pool ?? 'by the file system of the home'})`

const command: Command = {
  summary: 'start everything on this machine',
  help,
  async run(args) {
    parseFlags(args, {})
    const settings = readSettings(process.env)
    const logger = pino({ level: logLevel('warn') }, pino.destination({ dest: 2, sync: false }))
    const stopped = stopSignal()
    const installation = await startInstallation(settings, logger)
    const token = await mintToken(settings.home, { tenant: 'demo', subject: 'local', expiresIn: 30 * day, claims: {} })
    console.log(`API ${installation.api}`)
    console.log(`TOKEN ${token}`)
    console.log(`DOCS ${installation.docs}`)
    console.log(`HTTPS ${installation.https}`)
    console.log(`METRICS ${installation.metrics}`)
    console.log(`HOME ${settings.home}`)
    console.log(storageLine(installation.copies))
    console.log('Ready. One machine, for trying and developing. Stop with Ctrl-C; data is kept.')
    const failure = await Promise.race([stopped.then(() => undefined), installation.failed])
    if (failure === undefined) {
      await installation.stop()
      return 0
    }
    console.error(`espalier run: ${failure}. Stopping.`)
    // What cannot be stopped in order has failed already; nothing may look as if it served.
    await installation.stop().catch((error: unknown) => logger.warn({ err: error }, 'not everything stopped cleanly'))
    return 1
  },
}
export default command
