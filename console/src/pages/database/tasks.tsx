/** The page of operations of a database, its branches and its backups. */
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useApi } from '../../api/accounts.ts'
import { tasksQuery } from '../../api/queries.ts'
import { Empty, Result } from '../../components/state.tsx'
import { TaskList } from '../../components/task-list.tsx'
import { texts } from '../../texts.ts'

export default function DatabaseTasks() {
  const { id } = useParams({ from: '/databases/$id' })
  const query = useQuery(tasksQuery(useApi(), { database_id: id }))
  return (
    <section className="card" aria-label={texts.database.tab.tasks}>
      <Result query={query} what={texts.database.tab.tasks}>
        {tasks => (tasks.length === 0 ? <Empty title={texts.operations.none} /> : <TaskList tasks={tasks} />)}
      </Result>
      <p className="card-body">
        <Link to="/audit" search={{ database: id }}>
          {texts.operations.audit}
        </Link>
      </p>
    </section>
  )
}
