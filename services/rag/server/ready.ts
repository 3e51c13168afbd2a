/**
 * Checks whether every database of the pipelines has been reached. Providers that do not respond and missing tables do
 * not make the server unready, because both can become available at any time.
 */
import { StartupCheck } from '../../http/startup-check.ts'
import type { PipelineSet, Reachability } from '../pipelines.ts'
import { isUnreachable } from '../search/failures.ts'

const longestMs = 5_000

const isReached = ({ reachable, error }: Reachability): boolean => reachable || !isUnreachable(error)

export const databaseCheck = (pipelines: PipelineSet): StartupCheck =>
  new StartupCheck(async () => {
    const signal = AbortSignal.timeout(longestMs)
    const all = await Promise.all(pipelines.all().map(pipeline => pipeline.databaseHealth(signal)))
    return all.every(isReached) ? undefined : 'a database has not been reached'
  })
