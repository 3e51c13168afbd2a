/** `espalier rescue`: databases of the embedded default put back from their volumes, where the store is lost. */
import { pino } from 'pino'
import { rescue } from '../../embedded/rescue/index.ts'
import { readSettings } from '../../embedded/settings.ts'
import { type Command, logLevel, parseFlags } from '../command.ts'

const help = `Puts the databases of the embedded installation on this machine back from their volumes, where its store is lost or
damaged. Data, names, sizes and allowlists are as they were. Passwords are new, branches come back as databases, and
backups and tasks are lost. Nothing on a volume is changed; the old store is moved aside.

Usage: espalier rescue [options]

  --tenant ID  whose databases they are, of volumes that do not say so; may be given more than once

Stop Espalier first. Environment: as of \`espalier run\`.`

const command: Command = {
  summary: 'put databases back where the store is lost',
  help,
  async run(args) {
    const flags = parseFlags(args, { tenant: { type: 'string', multiple: true, default: [] } })
    const logger = pino({ level: logLevel('warn') }, pino.destination({ dest: 2, sync: false }))
    const { databases, skipped, aside } = await rescue({
      settings: readSettings(process.env),
      tenants: flags.tenant,
      logger,
    })
    for (const { tenant, name, id, wasBranch } of databases)
      console.log(`RESCUED ${tenant.tenantId}/${name} ${id}${wasBranch ? ' (it was a branch)' : ''}`)
    for (const { volume, why } of skipped) console.log(`SKIPPED ${volume.directory}: ${why}`)
    if (aside !== undefined) console.log(`The old store is in ${aside}`)
    console.log('Start Espalier again. Passwords are new: read them with the API.')
    return 0
  },
}
export default command
