/** `espalier tasks`: lists operations, newest first, with their error or last message. The API calls them tasks. */
import type { Task } from '../api/shapes.ts'
import { act, type ClientCommand, createCommand, databaseArgument, integer } from '../arguments.ts'
import type { Column } from '../output/table.ts'
import { ageOf } from '../output/units.ts'
import { findProject } from '../project.ts'
import { chosenDatabase } from '../session.ts'

const columns: readonly Column<Task>[] = [
  { title: 'OPERATION', value: ({ name }) => name },
  { title: 'SUBJECT', value: ({ subject_kind: kind, subject_id: id, subject_name: name }) => `${kind} ${name ?? id}` },
  { title: 'STATUS', value: ({ status }) => status },
  { title: 'STARTED', value: ({ created_at: time }) => ageOf(time) },
  { title: 'MESSAGE', value: ({ error, messages }) => error ?? messages.at(-1)?.text },
]

const command: ClientCommand = run => {
  const parsed = databaseArgument(
    createCommand(run, 'tasks', 'Lists the operations of a database and its branches, or of the account.'),
  ).option('-n, --lines <count>', 'how many operations', integer(1, 100), 20)
  return act<{ lines: number }>(run, parsed, async (session, [name], { lines }) => {
    const isOfOne = name !== undefined || (await findProject(session.io.directory)) !== undefined
    const chosen = isOfOne ? (await chosenDatabase(session, name)).database : undefined
    const client = await session.client()
    const tasks = await client.tasks(chosen === undefined ? {} : { database_id: chosen.id }, lines)
    const empty = 'No operations yet.'
    const { printer } = session
    printer.list(tasks, columns, ({ id }) => id, empty)
  })
}
export default command
