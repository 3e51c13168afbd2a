/** A list of operations. The user can open each line to read the messages of the operation. */
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../api/client.ts'
import { moment, operationText, span } from '../lib/format.ts'
import { texts } from '../texts.ts'
import { Ago, Status } from './state.tsx'

type Task = Schemas['Task']
type Database = Pick<Schemas['ManagedDatabase'], 'id'>

const tookOf = ({ created_at: from, updated_at: to, status }: Task): string | undefined =>
  status === 'succeeded' || status === 'failed' ? span(Date.parse(to) - Date.parse(from)) : undefined

/** Returns the error of an operation, else its newest message. Returns undefined if the operation has succeeded. */
const newestText = ({ status, error, messages }: Task): string | undefined => {
  if (status === 'succeeded') return undefined
  return error ?? messages.at(-1)?.text
}

function Messages({ task }: { task: Task }) {
  const { messages } = task
  if (messages.length === 0) return <p className="quiet">{texts.operations.noMessages}</p>
  return (
    <ol className="messages" aria-label={texts.operations.messages}>
      {messages.map(({ time, level, text, progress }) => (
        <li key={`${time} ${text}`} className={`message message-${level}`}>
          <time className="quiet nowrap numeric" dateTime={time}>
            {moment(Date.parse(time))}
          </time>
          <span className="wrap">
            {text}
            {progress !== undefined && ` (${texts.operations.percent(progress)})`}
          </span>
        </li>
      ))}
    </ol>
  )
}

/**
 * @param databases databases to which the list links. Undefined on the page of a database: the list then has no links,
 * and names only branches and backups.
 */
export function TaskList({ tasks, databases }: { tasks: readonly Task[]; databases?: readonly Database[] }) {
  const linked = new Set(databases?.map(({ id }) => id))
  return (
    <ul className="lines">
      {tasks.map(task => {
        const isOther = databases !== undefined || task.subject_kind !== 'database'
        const name = isOther ? task.subject_name : undefined
        const newest = newestText(task)
        const took = tookOf(task)
        return (
          <li key={task.id} className="task">
            <details>
              <summary>
                <Status status={task.status} />
                <strong>{operationText(task.name)}</strong>
                {name !== undefined && <span className="clip">{name}</span>}
                <span className="task-end quiet">
                  {took !== undefined && <span className="nowrap">{took}</span>}
                  <Ago at={task.created_at} />
                </span>
              </summary>
              <div className="task-body">
                {name !== undefined && linked.has(task.subject_id) && (
                  <Link to="/databases/$id" params={{ id: task.subject_id }}>
                    {texts.attention.show(name)}
                  </Link>
                )}
                {task.error !== undefined && <p className="notice tone-bad">{task.error}</p>}
                <Messages task={task} />
              </div>
            </details>
            {newest !== undefined && <p className="task-newest quiet wrap">{newest}</p>}
          </li>
        )
      })}
    </ul>
  )
}
