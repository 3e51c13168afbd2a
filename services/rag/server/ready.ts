/**
 * Whether every database of the pipelines has been reached. A provider that does not respond, or a table that does not
 * exist yet, does not make the server unready: both can change at any time.
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
