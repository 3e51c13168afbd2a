/** `espalier restore`: replaces a database's data with those of a backup or of a past time. */
import { escapeControls } from '../../values/escape.ts'
import {
  act,
  type ClientCommand,
  type ConfirmOptions,
  confirmOption,
  createCommand,
  time,
  type WaitOptions,
  waitOptions,
} from '../arguments.ts'
import { confirm } from '../confirm.ts'
import { UsageError } from '../errors.ts'
import { inOptions } from '../fields.ts'
import { findBackup, findBranch, findDatabase } from '../find.ts'
import type { Session } from '../session.ts'
import { waitFor } from '../wait.ts'

type Options = WaitOptions &
  ConfirmOptions & { backup?: string; to?: string; branch?: string; discardPrevious?: boolean }

const fields = inOptions({
  target_time: '--to',
  backup_id: '--backup',
  branch_id: '--branch',
  discard_previous: '--discard-previous',
})

const command: ClientCommand = run => {
  const parsed = createCommand(run, 'restore', 'Restores a database in place. Its address and passwords stay.')
    .argument('<database>', "the database's name or id")
    .option('--backup <backup>', 'the backup: its name or id')
    .option('--to <time>', 'the time, such as 2026-01-31T12:00:00Z (needs the durable tier)', time)
    .option(
      '--branch <branch>',
      'a branch that was created with --at or --from-backup: restores the data of that time or backup',
    )
    .option(
      '--discard-previous',
      'restores even if Espalier cannot back up the current data; deletes the previous volume after the restore',
    )
    .addHelpText(
      'after',
      '\nEspalier first backs up the current data. If the backup fails, the restore needs --discard-previous.',
    )
  const start = async (session: Session, name: string, options: Options) => {
    const { backup, to, branch, discardPrevious } = options
    if ([backup, to, branch].filter(one => one !== undefined).length !== 1)
      throw new UsageError('use exactly one of --backup, --to or --branch')
    const client = await session.client()
    const database = await findDatabase(client, name)
    const target = {
      ...(to === undefined ? {} : { target_time: to }),
      ...(backup === undefined ? {} : { backup_id: (await findBackup(client, backup, database.id)).id }),
      ...(branch === undefined ? {} : { branch_id: (await findBranch(client, database, branch)).id }),
    }
    const shown = escapeControls(database.name)
    const outcome = discardPrevious ? 'are lost if Espalier cannot back them up' : 'are kept as a backup'
    await confirm(session, options, database.name, `This replaces the data of ${shown}; the current data ${outcome}.`)
    const wanted = { ...target, ...(discardPrevious ? { discard_previous: true } : {}) }
    const first = await client.restore(database.id, wanted, 0)
    const read = (wait: number) => client.read(database.id, 'application', wait)
    const restored = await waitFor(session, options, { client, first, read })
    session.printer.done(escapeControls(`${restored.name} is ${restored.status}`), restored.name, restored)
  }
  const command = waitOptions(confirmOption(parsed))
  return act<Options>(run, command, (session, [name = ''], options) => start(session, name, options), fields)
}
export default command
