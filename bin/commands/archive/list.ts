/** `espalier archive list`: prints the base backups of a database. */
import { completeBackups } from '../../../archive/backup/read.ts'
import { type Command, parseFlags } from '../../command.ts'
import { incarnationHelp, incarnationOf, incarnationOptions, storeHelp, storeOptions, withArchive } from './open.ts'

const help = `Lists the complete base backups of a database, oldest first.

Usage: espalier archive list --store URL --key-file FILE --database ID [options]

${incarnationHelp}
  --json                   prints one JSON object per line

${storeHelp}`

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      ...storeOptions,
      ...incarnationOptions,
      json: { type: 'boolean', default: false },
    })
    const incarnation = incarnationOf(flags)
    await withArchive(flags, async archive => {
      for await (const { id, record } of completeBackups(archive, incarnation)) {
        const { startedAt, endedAt, start, end, bytes } = record
        if (flags.json) console.log(JSON.stringify({ id, startedAt, endedAt, start, end, bytes }))
        else
          console.log(
            [id, endedAt, `${Math.ceil(bytes / 2 ** 20)} MiB`, `${start.position} to ${end.position}`].join('  '),
          )
      }
    })
    return 0
  },
}
export default command
