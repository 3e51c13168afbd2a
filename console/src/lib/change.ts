/** Runs a write to the API, shows a notification, and refetches the changed data. */
import { type UseMutationResult, useMutation, useQueryClient } from '@tanstack/react-query'
import { useApi } from '../api/accounts.ts'
import type { Api } from '../api/client.ts'
import { notify } from '../components/toasts.tsx'

type Options<I, T> = {
  act: (api: Api, input: I) => Promise<T>
  /** Prefixes of the query keys to refetch. */
  stale: readonly (readonly string[])[]
  /** The text of the notification. */
  done: string | ((result: T, input: I) => string)
  onDone?: (result: T, input: I) => void
}

type Change<I, T = unknown> = UseMutationResult<T, Error, I>

export function useChange<I = void, T = unknown>({ act, stale, done, onDone }: Options<I, T>): Change<I, T> {
  const api = useApi()
  const cache = useQueryClient()
  return useMutation<T, Error, I>({
    mutationFn: input => act(api, input),
    onSuccess: (result, input) => {
      notify(typeof done === 'string' ? done : done(result, input))
      onDone?.(result, input)
    },
    onSettled: () => {
      for (const queryKey of [...stale, ['tasks']]) cache.invalidateQueries({ queryKey })
    },
  })
}
