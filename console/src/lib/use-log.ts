/** Reads the log of Postgres or of a service. Repeats the read every few seconds while the user follows the log. */
import { useEffect, useState } from 'react'
import { useApi } from '../api/accounts.ts'
import { type Api, read } from '../api/client.ts'
import { type Line, withRead } from './logs.ts'
import type { ServiceType } from './services.ts'
import { keyOf, type Target } from './target.ts'

type LogSource = 'postgres' | ServiceType

const everyMs = 3000
const mostRead = 1000

async function readLog(
  api: Api,
  { id, branchId }: Target,
  source: LogSource,
  after: string | undefined,
  signal: AbortSignal,
) {
  const query = {
    max_lines: mostRead,
    ...(source === 'postgres' ? {} : { service: source }),
    ...(after === undefined ? {} : { start_time: after }),
  }
  const { logs } = await read(
    branchId === undefined
      ? api.GET('/managed/v1/databases/{id}/logs', { params: { path: { id }, query }, signal })
      : api.GET('/managed/v1/databases/{id}/branches/{branch_id}/logs', {
          params: { path: { id, branch_id: branchId }, query },
          signal,
        }),
  )
  return logs
}

type Log = { lines: readonly Line[]; isLoading: boolean; error: Error | null; retry: () => void }

/** Returns the lines of a log. Does not read while the browser tab is hidden, unless there are no lines yet. */
export function useLog(target: Target, source: LogSource, isFollowing: boolean): Log {
  const api = useApi()
  const [state, setState] = useState<Omit<Log, 'retry'>>({ lines: [], isLoading: true, error: null })
  const [attempt, setAttempt] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt must read again
  useEffect(() => {
    const stop = new AbortController()
    let lines = state.lines
    let timer: ReturnType<typeof setTimeout> | undefined
    const once = async () => {
      if (!document.hidden || lines.length === 0)
        try {
          lines = withRead(lines, await readLog(api, target, source, lines.at(-1)?.entry.timestamp, stop.signal))
          if (!stop.signal.aborted) setState({ lines, isLoading: false, error: null })
        } catch (error) {
          if (stop.signal.aborted) return
          setState({ lines, isLoading: false, error: error instanceof Error ? error : new Error(String(error)) })
        }
      if (isFollowing && !stop.signal.aborted) timer = setTimeout(once, everyMs)
    }
    once()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [api, keyOf(target), source, isFollowing, attempt])
  return { ...state, retry: () => setAttempt(before => before + 1) }
}
