/** `espalier rescue`: restores databases of the embedded installation from their volumes, if its store is lost. */
import { pino } from 'pino'
import { rescue } from '../../embedded/rescue/index.ts'
import { readSettings } from '../../embedded/settings.ts'
import { type Command, logLevel, parseFlags } from '../command.ts'

const help = `Restores the databases of the embedded installation on this machine from their volumes, if its store is lost or
damaged. Data, names, sizes and allowlists are restored. Passwords are new, branches become databases, and
backups and tasks are lost. Volumes are not changed; the old store is moved aside.

Usage: espalier rescue [options]

  --tenant ID  a tenant whose volumes may have no record: Espalier finds these volumes by the tenant's namespace. For several
               tenants, repeat the option

Stop Espalier first. Environment: same as \`espalier run\`.`

const command: Command = {
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
