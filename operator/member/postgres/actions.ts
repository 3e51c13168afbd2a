/** Actions in a member's Postgres. */
export type PostgresAction =
  /** Sets roles and passwords. `opens`: then lets clients into a closed copy, as `open` does. */
  | { do: 'ensure-roles'; opens?: true }
  /** Removes the source's slots and subscriptions from a closed copy. */
  | { do: 'detach' }
  /** Lets clients into a closed copy. */
  | { do: 'open' }
  /** Makes Postgres read its certificate and configuration again. */
  | { do: 'reload' }
