"""What users and plug-in writers import; everything else may change without notice."""
