/** Actions in a member's Postgres. */
export type PostgresAction =
  /**
   * Sets roles and passwords. `opens`: then opens a closed copy to clients, as `open` does. `keepsPasswords`: those of users' roles stay as
   * they are.
   */
  | { do: 'ensure-roles'; opens?: true; keepsPasswords?: true }
  /** Removes the source's slots and subscriptions from a closed copy. */
  | { do: 'detach' }
  /** Lets clients into a closed copy. */
  | { do: 'open' }
  /** Makes Postgres read its certificate and configuration again. */
  | { do: 'reload' }
