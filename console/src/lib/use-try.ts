/** Sends requests to a service, one at a time. Provides the answer or error, and a function that cancels a request. */
import { useEffect, useRef, useState } from 'react'
import { useApi } from '../api/accounts.ts'
import { tryService } from '../api/try-service.ts'
import { useTarget } from './target.ts'
import type { ServiceAnswer } from './try-answer.ts'
import type { TryRequest } from './try-it.ts'

export type Attempt =
  | { state: 'idle' | 'running' | 'cancelled' }
  | { state: 'answered'; answer: ServiceAnswer }
  | { state: 'failed'; error: Error }

export function useTry() {
  const api = useApi()
  const target = useTarget()
  const [attempt, setAttempt] = useState<Attempt>({ state: 'idle' })
  const stop = useRef<AbortController>(undefined)
  useEffect(() => () => stop.current?.abort(), [])
  const send = async (request: TryRequest) => {
    const controller = new AbortController()
    stop.current = controller
    const show = (next: Attempt) => stop.current === controller && setAttempt(next)
    show({ state: 'running' })
    try {
      show({ state: 'answered', answer: await tryService(api, target, request, controller.signal) })
    } catch (error) {
      if (controller.signal.aborted) show({ state: 'cancelled' })
      else show({ state: 'failed', error: error instanceof Error ? error : new Error(String(error)) })
    }
  }
  return { attempt, send, cancel: () => stop.current?.abort() }
}
