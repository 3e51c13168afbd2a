/** Runs statements, one run at a time. Provides the growing results, and a function that cancels the run. */
import { useEffect, useRef, useState } from 'react'
import type { Account } from '../api/accounts.ts'
import { runSql, type SqlRequest } from '../api/run-sql.ts'
import { texts } from '../texts.ts'
import type { SqlResult } from './sql.ts'
import type { Target } from './target.ts'

type Run = {
  /** Increases with every change. Results grow in place, so their identity does not show a change. */
  version: number
  results: readonly SqlResult[]
  isRunning: boolean
  error: string | undefined
  /** The number of characters before the executed text in the editor. Positions of errors count from the first one. */
  charactersBefore: number
  isPlan: boolean
}

const none: Run = { version: 0, results: [], isRunning: false, error: undefined, charactersBefore: 0, isPlan: false }
/** The minimum time between two redraws of growing results. */
const drawEveryMs = 120

export function useSql(account: Account) {
  const [run, setRun] = useState<Run>(none)
  const stop = useRef<AbortController>(undefined)
  useEffect(() => () => stop.current?.abort(), [])
  const start = async (request: SqlRequest, target: Target, charactersBefore = 0) => {
    stop.current?.abort()
    const controller = new AbortController()
    stop.current = controller
    let latest: readonly SqlResult[] = []
    let drawn = 0
    const draw = (changes: Partial<Run>) => {
      if (stop.current !== controller) return
      drawn = Date.now()
      setRun(before => ({ ...before, version: before.version + 1, results: [...latest], ...changes }))
    }
    draw({ isRunning: true, error: undefined, charactersBefore, isPlan: request.explain !== undefined })
    try {
      await runSql(account, target, request, controller.signal, results => {
        latest = results
        if (Date.now() - drawn > drawEveryMs) draw({})
      })
      draw({ isRunning: false })
    } catch (error) {
      const text = controller.signal.aborted ? texts.sql.cancelled : error instanceof Error ? error.message : ''
      draw({ isRunning: false, error: text })
    }
  }
  return { run, start, cancel: () => stop.current?.abort() }
}
