/** `espalier run`: runs the embedded installation in the foreground until the user stops it. */
import { pino } from 'pino'
import { startInstallation } from '../../embedded/installation.ts'
import type { Copies } from '../../embedded/runtime/index.ts'
import { readSettings } from '../../embedded/settings.ts'
import { mintToken } from '../../embedded/tokens.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, logLevel, parseFlags } from '../command.ts'

const help = `Starts Espalier on this machine: API, operator, gateway and an embedded cluster, in one process tree.
For evaluation, development and tests; for more than one machine use Kubernetes.

Usage: espalier run

Environment:
  ESPALIER_HOME        the data directory (default: .espalier in the checkout, as root /var/lib/espalier)
  ESPALIER_LISTEN      127.0.0.1 (default), or 0.0.0.0 in a container whose ports are published
  ESPALIER_API_PORT    port of the API (default: 8080)
  ESPALIER_HTTPS_PORT  port of the databases' services (default: 8443)
  ESPALIER_ARCHIVE_PORT  port of the archive, once a database has the durable tier (default: 8444)
  ESPALIER_PORTS       first port of the databases, or FIRST-LAST (default: 15432); the last port serves metrics
  ESPALIER_USER        as root: the user that Postgres runs as (default: espalier, postgres or nobody)
  ESPALIER_IMPORT_FROM private address blocks from which imports are allowed, such as 10.0.0.0/8,127.0.0.0/8; public addresses are
                       always allowed
  ESPALIER_POSTGRES_PROGRAMS
                       the directory with psql, pg_dump and pg_restore for imports, if not in a default location
  ESPALIER_POOL        auto: as root, creates a copy-on-write file system in ESPALIER_HOME if the existing one cannot
                       share blocks. off: never (default: auto)
  ESPALIER_CONSOLE_DIR the files of the console (default: console/dist beside the program)
  ESPALIER_LOG         trace, debug, info, warn, error, fatal or silent (default: warn)

When it is ready, it prints lines that begin with API, TOKEN, DOCS, HTTPS, METRICS, HOME and STORAGE.`

const day = 86400

/** Returns the line that describes the cost of backups and branches on this machine. */
const storageLine = (copies: Copies): string =>
  copies.kind === 'whole'
    ? `STORAGE copies are full: each backup and branch takes time and disk space in proportion to its data (${copies.why})`
    : `STORAGE copies share blocks: backups and branches take little time and disk space (${copies.pool ?? 'by the file system of the home'})`

const command: Command = {
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
    console.log('Ready. One machine, for evaluation and development. Stop with Ctrl-C; data is kept.')
    const failure = await Promise.race([stopped.then(() => undefined), installation.failed])
    if (failure === undefined) {
      await installation.stop()
      return 0
    }
    console.error(`espalier run: ${failure}. Stopping.`)
    // Stop all parts: none may continue to serve. An error is only logged, because the installation has failed already.
    await installation.stop().catch((error: unknown) => logger.warn({ err: error }, 'not everything stopped cleanly'))
    return 1
  },
}
export default command
