/** `espalier archive backup`: streams a base backup of a running Postgres to the store. */
import { backupNames } from '../../../archive/backup/record.ts'
import { writeBackup } from '../../../archive/backup/write.ts'
import { baseBackup } from '../../../instance/replication/base-backup.ts'
import { ReplicationConnection } from '../../../instance/replication/connection.ts'
import { secureSocket } from '../../../instance/replication/secure-socket.ts'
import { createIds } from '../../../values/id.ts'
import { type Command, parseFlags, readCertificateFlags, readFlagFile } from '../../command.ts'
import {
  incarnationHelp,
  incarnationOf,
  incarnationOptions,
  required,
  storeHelp,
  storeOptions,
  withArchive,
} from './open.ts'

const help = `Takes a base backup of a running Postgres 15 or newer, without a copy on disk.

Usage: espalier archive backup --store URL --key-file FILE --database ID --host NAME --certificate FILE --key FILE --authority FILE [options]

  --host NAME              the host name of Postgres, as in its certificate
  --address ADDRESS        its address, if the host name does not resolve to it
  --port PORT              (default: 5432)
  --user NAME              a role with REPLICATION (default: espalier_replication)
  --certificate FILE       the client certificate, PEM
  --key FILE               its private key, PEM
  --authority FILE         the CA of Postgres's certificate, PEM

${incarnationHelp}

${storeHelp}

Prints the backup's id after it has stored the whole backup and read it back.`

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      ...storeOptions,
      ...incarnationOptions,
      host: { type: 'string' },
      address: { type: 'string' },
      port: { type: 'string', default: '5432' },
      user: { type: 'string', default: 'espalier_replication' },
      certificate: { type: 'string' },
      key: { type: 'string' },
      authority: { type: 'string' },
    })
    const incarnation = incarnationOf(flags)
    const serverName = required(flags, 'host')
    const certificate = await readCertificateFlags({
      cert: required(flags, 'certificate'),
      key: required(flags, 'key'),
    })
    const ca = await readFlagFile('--authority', required(flags, 'authority'))
    const server = { host: flags.address ?? serverName, port: Number(flags.port), serverName, ca, ...certificate }
    const id = createIds(Date.now)()
    await withArchive(flags, async archive => {
      const socket = await secureSocket(server)
      const connection = await ReplicationConnection.open(socket, flags.user, 'espalier archive backup')
      try {
        const events = baseBackup(connection, { label: backupNames(incarnation, id).record })
        await writeBackup(archive, events, { incarnation, id, now: Date.now, onProgress: showProgress })
      } finally {
        connection.close()
      }
    })
    console.log(id)
    return 0
  },
}
export default command

function showProgress(bytes: number, estimate: number): void {
  if (process.stderr.isTTY)
    process.stderr.write(`\r${Math.round(bytes / 2 ** 20)} of about ${Math.round(estimate / 2 ** 20)} MiB `)
}
