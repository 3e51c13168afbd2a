import type { Cluster } from '../../cluster/index.ts'
import { childNames, type Task } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'

/** The Task with this id. No cache has ended Tasks, so a missing Task is read from the cluster. */
export async function findTask(
  { caches, cluster }: { caches: Pick<Caches, 'tasks'>; cluster: Pick<Cluster, 'get'> },
  namespace: string | undefined,
  taskId: string,
): Promise<Task | undefined> {
  const key = { namespace, name: childNames.task(taskId) }
  return caches.tasks.get(key) ?? (await cluster.get('Task', key))
}
