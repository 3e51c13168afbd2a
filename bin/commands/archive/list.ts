/** `espalier archive list`: the base backups of a database. */
import { backupIds, readRecord } from '../../../archive/backup/read.ts'
import { type Command, parseFlags } from '../../command.ts'
import { incarnationHelp, incarnationOf, incarnationOptions, storeHelp, storeOptions, withArchive } from './open.ts'

const help = `Lists the complete base backups of a database, the oldest first.

Usage: espalier archive list --store URL --key-file FILE --database ID [options]

${incarnationHelp}
  --json                   prints one JSON object a line

${storeHelp}`

const command: Command = {
  summary: 'list base backups',
  help,
  async run(args) {
    const flags = parseFlags(args, {
      ...storeOptions,
      ...incarnationOptions,
      json: { type: 'boolean', default: false },
    })
    const incarnation = incarnationOf(flags)
    await withArchive(flags, async archive => {
      for await (const id of backupIds(archive, incarnation)) {
        const record = await readRecord(archive, incarnation, id)
        if (record === undefined) continue
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
