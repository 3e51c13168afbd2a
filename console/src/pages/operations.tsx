/** The page of the newest operations of the account. */
import { useQuery } from '@tanstack/react-query'
import { useApi } from '../api/accounts.ts'
import { databasesQuery, tasksQuery } from '../api/queries.ts'
import { Empty, PageTitle, Result } from '../components/state.tsx'
import { TaskList } from '../components/task-list.tsx'
import { texts } from '../texts.ts'

export default function Operations() {
  const api = useApi()
  const query = useQuery(tasksQuery(api))
  const { data: databases = [] } = useQuery(databasesQuery(api))
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <PageTitle>{texts.operations.title}</PageTitle>
          <p className="quiet">{texts.operations.what}</p>
        </div>
      </div>
      <Result query={query} what={texts.operations.title}>
        {tasks => (
          <div className="card">
            {tasks.length === 0 ? (
              <Empty title={texts.operations.none}>{texts.overview.operationsNone}</Empty>
            ) : (
              <TaskList tasks={tasks} databases={databases} />
            )}
          </div>
        )}
      </Result>
    </div>
  )
}
